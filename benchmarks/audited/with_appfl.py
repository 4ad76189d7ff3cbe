"""APPFL: what its VanillaTrainer uploads under output perturbation, whose sensitivity it takes from the clipping value.

The loss is the mean of a linear model's outputs, so that the gradient is the mean of rows; all records are one batch.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from appfl.algorithm.trainer import VanillaTrainer
from omegaconf import OmegaConf
from releases import Case, write
from torch import nn
from torch.utils.data import TensorDataset

DELTA, RECORDS, SIZE = 1e-5, 2, 5.0
WEIGHTS, PLACE = 4, 0.05  # of a gradient of norm 1 and a step of 0.1
TEMPLATE = {  # privacy as in its configuration files, with use_dp and clip_grad switched on
    "use_dp": True, "dp_mechanism": "laplace", "epsilon": 1, "clip_grad": True, "clip_value": 1, "clip_norm": 1,
    "mode": "step", "num_local_steps": 1, "optim": "SGD", "optim_args": {"lr": 0.1}, "train_batch_size": RECORDS,
    "optimize_memory": False,
}  # fmt: skip
torch.set_num_threads(1)
torch.manual_seed(0)


def uploads(weights: int = 1, **changes: Any) -> Callable[[int], torch.Tensor]:
    """The weights as they leave a client after a round from zero, on either of two data sets.

    Of several the attacker adds up what lies between the places where the two data sets put each of them: with Laplace
    noise that is the ratio of likelihoods.
    """

    def silent(*_: Any) -> None:
        """Of what a trainer logs."""

    def trainer(row: float) -> VanillaTrainer:
        table = torch.zeros(RECORDS, weights)
        table[0] = row
        return VanillaTrainer(
            model=nn.Linear(weights, 1, bias=False),
            loss_fn=lambda output, _: output.mean(),
            metric=lambda *_: 0.0,
            train_dataset=TensorDataset(table, torch.zeros(RECORDS)),
            train_configs=OmegaConf.create(TEMPLATE | changes),
            logger=SimpleNamespace(log_title=silent, set_title=silent, log_content=silent),
        )

    trainers = [trainer(row) for row in (SIZE, -SIZE)]

    def release(world: int) -> torch.Tensor:
        nn.init.zeros_(trainers[world].model.weight)
        trainers[world].train()
        told = trainers[world].get_parameters()[0]["weight"]
        return told if weights == 1 else told.clamp(-PLACE, PLACE).sum()

    return release


gaussian = {"dp_mechanism": "gaussian", "clip_norm": 2}
pure, approximate = {"epsilon": 1.0}, {"gaussian": 1.0, "delta": DELTA}
write(
    "appfl",
    [
        Case("Laplace output perturbation, one local step", pure, uploads(), 0.25),
        Case("the same with two local steps", pure, uploads(num_local_steps=2), 0.25),
        Case(f"the same, one step, `clip_norm` 2, {WEIGHTS} weights", pure, uploads(WEIGHTS, clip_norm=2), 0.25),
        Case("the same, one step, `clip_grad` left off", pure, uploads(clip_grad=False), 0.25),
        Case("Gaussian output perturbation, one local step", approximate, uploads(**gaussian), 0.25),
        Case("the same with two local steps", approximate, uploads(num_local_steps=2, **gaussian), 0.25),
    ],
)
