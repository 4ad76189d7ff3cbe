r"""A record rebuilt from one upload of a client that used it alone: the attack that the paper's introduction speaks of.

The gradient of a loss of one margin is $a\,s^\top$ for the row $a$ and some slopes $s$ (Zhu, Liu and Han 2019 rebuild
records from gradients; here no search is needed). In the first round the dual is zero, so that the upload
$y = 2\tilde x - x_0$ tells the gradient $(\gamma+\rho)(x_0 - \tilde x)$ of batch size one. The last column, the bias,
is the same for everybody and tells the scale. Without noise the row is exact.
"""

from typing import NamedTuple

import numpy as np

from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.audit.game import watched
from fedspd.engine.round import play
from fedspd.typing import Batches

CLOSE = 0.1  # of numbers in [-1, 1]: a twentieth of their range


class Recovered(NamedTuple):
    """Shares of what was found out, over all records."""

    numbers: float  # of numeric columns, those that are close
    levels: float  # of categorical columns, those whose level is right


def rebuilt_rows(
    algorithm: FedSPD, rows: np.ndarray, labels: np.ndarray, multiplier: float, bias: float, seed: int
) -> np.ndarray:
    """What an attacker makes of the uploads of clients that hold one record each, the bias left out.

    Args:
        algorithm: of one local step, from the server's weights.
        rows: as clients hold them, the bias last.
        labels: theirs.
        multiplier: noise over sensitivity; 0: none.
        bias: before rows were made shorter.
        seed: of the noise.
    """
    shape = (rows.shape[1], algorithm.objective.loss.outputs)
    server, client, _ = algorithm.start(np.zeros((len(rows), *shape)))
    batches = Batches(rows[:, None, None], labels[:, None, None], np.ones(len(rows)))
    scale = multiplier * float(np.max(algorithm.sensitivity(1, np.ones(1))))
    noise = np.random.default_rng(seed).standard_normal((len(rows), *shape))
    told = algorithm.broadcast(server, 1)
    uploads = play(algorithm, told, client, batches, watched(algorithm.law, scale, []), noise).replies
    moved = np.asarray(told.weights) - (np.asarray(uploads) + np.asarray(told.weights)) / 2
    direction = moved[..., 0] - moved[..., -1]
    last = direction[:, -1:]
    return bias * direction[:, :-1] / np.where(last == 0, 1.0, last)


def recovered(rebuilt: np.ndarray, true: np.ndarray, columns: tuple[str, ...]) -> Recovered:
    """How much of the records was found out; a level that all columns of its block deny is the first, left out one."""
    blocks: dict[str, list[int]] = {}
    for place, name in enumerate(columns):
        blocks.setdefault(name.split("=")[0], []).append(place)
    numeric = [places[0] for name, places in blocks.items() if f"{name}=" not in columns[places[0]]]
    levels = [places for places in blocks.values() if places[0] not in numeric]
    scale = np.max(rebuilt[:, [place for places in levels for place in places]], axis=1, keepdims=True)
    rebuilt = rebuilt / np.where(scale > 0, scale, 1.0)  # long rows were made shorter, and a level that is there is one
    close = np.abs(rebuilt[:, numeric] - true[:, numeric]) <= CLOSE
    right = [_level(rebuilt[:, places]) == _level(true[:, places]) for places in levels]
    return Recovered(float(close.mean()), float(np.mean(right)))


def _level(block: np.ndarray) -> np.ndarray:
    return np.argmax(np.concatenate([1 - block.sum(axis=1, keepdims=True), block], axis=1), axis=1)
