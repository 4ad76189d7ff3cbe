"""Opacus: one step of DP-SGD on all records, and some on batches by Poisson sampling, as its engine makes them.

A record of gradient 5, clipped to 1, against one without gradient in its place, so that both data sets are as long.
"""
# pyright: basic, reportMissingImports=false

from collections.abc import Callable

import torch
from opacus import PrivacyEngine
from releases import Case, write
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DELTA, RECORDS, BATCH, STEPS = 1e-5, 10, 5, 2
torch.set_num_threads(1)
torch.manual_seed(0)


def trained(noise: float, batch: int, poisson: bool) -> Callable[[int], list[float]]:
    """The weight after each step, from zero every time, on either of two data sets."""
    steps = []
    for row in (5.0, 0.0):
        rows = torch.zeros(RECORDS, 1)
        rows[0] = row
        model = nn.Linear(1, 1, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        engine = PrivacyEngine(accountant="prv")
        private, optimizer, loader = engine.make_private(
            module=model, optimizer=optimizer, data_loader=DataLoader(TensorDataset(rows), batch_size=batch),
            noise_multiplier=noise, max_grad_norm=1.0, poisson_sampling=poisson,
        )  # fmt: skip
        steps.append((private, optimizer, loader))

    def release(world: int) -> list[float]:
        model, optimizer, loader = steps[world]
        weights = []
        while len(weights) < (STEPS if poisson else 1):
            for (rows,) in loader:
                with torch.no_grad():
                    model._module.weight.zero_()
                optimizer.zero_grad()
                model(rows).mean().backward()
                optimizer.step()
                weights.append(float(model._module.weight.detach()))
        return weights[:STEPS]

    return release


def counted(noise: float) -> float:
    """The epsilon of so many steps by Poisson sampling, by the engine's own accountant."""
    accountant = PrivacyEngine(accountant="prv").accountant
    for _ in range(STEPS):
        accountant.step(noise_multiplier=noise, sample_rate=BATCH / RECORDS)
    return accountant.get_epsilon(DELTA)


write(
    "opacus",
    [
        Case("a step on all records, noise 1", {"mu": 1.0, "delta": DELTA}, trained(1.0, RECORDS, False), 0.25),
        Case(
            "two steps by Poisson sampling, noise 0.7",
            {"epsilon": counted(0.7), "delta": DELTA},
            trained(0.7, BATCH, True),
            0.25,
        ),
    ],
)
