"""A run made by hand."""

import numpy as np

from fedspd.results import COLUMNS, History, RunRecord, Summary

SUMMARY = Summary(
    algorithm="fedspd", title="fedspd", guarantee="proved", delta=1e-5, unit="record", relation="replace-one",
    sampling="whole-shard", mechanism="Gaussian", conversion=None, precision="float64", adversary="anyone",
    epsilon_spent_max=1.0,
    epsilon_spent_mean=0.5, epsilon=1.0, epsilon_proved=1.0, unproved_because=None, epsilon_per_round=0.5,
    noise_multiplier=4.0, accountant="pld", scaling_charged=True, rounds=5, rounds_planned=5, stopped=None, clients=100,
    participants=20, participations_max=2, uploads=100, records_min=325, records_max=326, dimension=164, penalty=0.1,
    inverse_step=0.5, test_accuracy=0.8, test_accuracy_average=0.8, majority_accuracy=0.76, test_loss=0.4,
    bytes_uploaded=131_200, objective=40.0, alfv=50.0, consensus_error=1.0, weights_norm=2.0, clipped_share=0.5,
    convergence=None, wall_seconds=0.5, seed=0, columns=COLUMNS, engine="numpy",
)  # fmt: skip
HISTORY = History({name: np.arange(1.0, 6.0) / 7 for name in COLUMNS})
RECORD = RunRecord(SUMMARY, HISTORY, "[run]\nseed = 3\n", {"python": "3.11", "processors": 2})
