"""Other ways to the same numbers: a plain engine, a compiled one, a run that is cut off, an accountant of its own."""

import random
from pathlib import Path
from typing import Any

import numpy as np

from fedspd.assemble import run as run_whole
from fedspd.assemble.build import Experiment
from fedspd.config import Config
from fedspd.engine import Outcome, Simulation, simulate
from fedspd.engine.arrivals import arrive
from fedspd.engine.batches import gather_batches, trimmed
from fedspd.engine.client_tables import converted, gather, heard, scatter, writable
from fedspd.engine.keeping import Keeper
from fedspd.engine.numpy_engine import draw_round
from fedspd.engine.participation import plan_rounds
from fedspd.engine.release import Drawn, release
from fedspd.engine.round import play, play_free
from fedspd.engine.spending import Spending
from fedspd.errors import InputError
from fedspd.privacy.ledger import Ledger
from fedspd.privacy.ledger.key import EVALUATION
from fedspd.privacy.second_accountant import SecondOpinion, second_epsilon
from fedspd.results import Checkpoints

NEAR = 1e-8


class CutOff(BaseException):
    """As a signal ends a process."""


def plain_models(run: Simulation) -> np.ndarray:
    """The models of all rounds, one client at a time: no parts, no threads, no stacks but of one."""
    algorithm, shards = run.algorithm, run.shards
    kind = shards.features.dtype
    start = algorithm.start(np.zeros((shards.clients, *run.matrix), kind))
    server: Any = converted(start[0], np.float64)
    clients, replies = writable(start[1:])
    models = []
    for turn in plan_rounds(run, Spending(run.plan, shards.clients, None, run.spent_every_round)):
        arrived = arrive(run, turn)
        told = algorithm.broadcast(server, turn.round)
        scales = run.plan.noise_scale(arrived.chosen, algorithm.sensitivity(turn.round, arrived.divisors))
        scales = np.broadcast_to(np.asarray(scales * arrived.louder), (len(arrived.chosen),))
        sent, previous = [], replies[arrived.chosen]
        if len(arrived.chosen):
            draws = draw_round(run, turn.round, arrived.chosen)
            records, hears = arrived.of(draws.records), converted(told, kind)
            for place in range(len(arrived.chosen)):
                one = slice(place, place + 1)
                states = gather(clients, arrived.chosen[one])
                free = play_free(algorithm, heard(hears, one), states) if turn.free else None
                if free is None:
                    batches = gather_batches(
                        shards, arrived.chosen[one], trimmed(records[one]), arrived.divisors[one]
                    )  # fmt: skip
                    scale = np.asarray(scales[one], kind).reshape(1, 1, 1)

                    def perturb(query: Any, noise: Any, scale: Any = scale) -> Any:
                        return release(query, Drawn(run.plan.law, scale, noise))

                    free = play(algorithm, heard(hears, one), states, batches, perturb, draws.noise[one])
                scatter(clients, arrived.chosen[one], free.client)
                sent.append(free.replies)
            server = algorithm.merge(server, told, np.concatenate(sent), previous, np.ones(len(sent)))
            scatter(replies, arrived.chosen, np.concatenate(sent))
        models.append(np.asarray(algorithm.model(server)))
    return np.array(models)


def require_near(what: str, found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Equal, up to rounding relative to the largest number."""
    size = float(np.nanmax(np.abs(expected), initial=1e-12))
    if not np.allclose(found, expected, rtol=tolerance, atol=tolerance * size, equal_nan=True):
        raise AssertionError(f"{what}: off by {np.nanmax(np.abs(found - expected)) / size:.3g} of the largest number")


def require_same_bits(what: str, found: Outcome, expected: Outcome) -> None:
    """Every number of two outcomes."""
    for name, column in expected.history.columns.items():
        if not np.array_equal(found.history[name], column, equal_nan=True):
            raise AssertionError(f"{what}: {name} differs")
    if not np.array_equal(found.models, expected.models, equal_nan=True):
        raise AssertionError(f"{what}: models differ")


def cut_off_and_resumed(run: Simulation, folder: Path, rng: random.Random) -> Outcome:
    """The same run, cut off after random rounds, once or twice, its last checkpoint damaged now and then."""
    kept = Checkpoints(folder)
    for _ in range(rng.randint(1, 2)):
        left = rng.randint(1, run.rounds)

        def count() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise CutOff

        try:
            return simulate(run, count, keeper=Keeper(kept, every=0.0))
        except CutOff:
            pass
        files = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
        if files and rng.random() < 0.3:
            files[-1].write_bytes(files[-1].read_bytes()[: rng.randrange(files[-1].stat().st_size)])
    return simulate(run, keeper=Keeper(kept, every=0.0))


def compiled(run: Simulation) -> Outcome:
    """The compiled engine on the same draws, in double precision."""
    import jax

    from fedspd.engine.jax_engine.batch import simulate_batch

    ((_, outcome),) = simulate_batch([run], kind=np.float64, drawn=lambda *turn: draw_round(run, *turn))
    jax.clear_caches()  # pyright: ignore
    return outcome


def require_statement(experiment: Experiment, outcome: Outcome, path: Path) -> None:
    """What a run says it spent, from the rows of its ledger, by the second accountant."""
    delta = experiment.config.privacy.delta
    with Ledger(path) as ledger:
        accounts = {name: account.history for name, account in ledger.accounts.items()}
        budgets = {name: account.terms.budget.epsilon for name, account in ledger.accounts.items()}
    found = {name: second_epsilon(history, delta) for name, history in accounts.items()}
    stated = float(outcome.history.last("epsilon_max"))
    largest = max(found.values())
    if not largest.agrees(stated):
        raise AssertionError(f"the statement says {stated:.9g}, the ledger's rows compose to {largest.epsilon:.9g}")
    _require_within(found, budgets)


def measured(config: Config, path: Path) -> bool:
    """Whether the model of a run was measured on what it held out, within every budget; False: it was refused."""
    with Ledger(path) as ledger:
        done = run_whole(config, ledger=ledger)
    try:
        first = done.evaluate()
    except InputError:
        return False
    if not first.charged or done.evaluate() != first:
        raise AssertionError("a measurement was not charged, or not read again")
    with Ledger(path) as ledger:
        found = {name: second_epsilon(one.history, config.privacy.delta) for name, one in ledger.accounts.items()}
        times = [charged.times for charged in ledger.charges() if charged.mechanism == EVALUATION]
        _require_within(found, {name: one.terms.budget.epsilon for name, one in ledger.accounts.items()})
    if times != [1] * len(found):
        raise AssertionError(f"a measurement was charged {times}, with {len(found)} clients")
    return True


def _require_within(found: dict[str, SecondOpinion], budgets: dict[str, float]) -> None:
    over = [name for name, opinion in found.items() if opinion.exceeds(budgets[name])]
    if over:
        raise AssertionError(f"{over[0]} has spent {found[over[0]].epsilon:.6g} of {budgets[over[0]]:.6g}")
