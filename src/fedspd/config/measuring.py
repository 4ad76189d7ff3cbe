"""What is measured: by a simulator, without noise, and on private records, which is paid for."""

from dataclasses import dataclass

from fedspd.reading import setting

ROUNDS = (1, 1e7)
"""More take months."""


@dataclass(frozen=True)
class Metrics:
    """What is measured besides."""

    objective_every: int = setting(
        1, "rounds between evaluations of the objective on all records; 0: never", at_least=0, within=ROUNDS
    )
    spent_every_round: bool = setting(True, "evaluate the privacy spent after every round, not only after the last")
    lagrangian: bool = setting(
        True, "follow the augmented Lagrangian, which reads all records of every participant in every round"
    )
    criterion: bool = setting(True, "compute the criterion H against the optimum without privacy, at the end")


@dataclass(frozen=True)
class Evaluation:
    """What is kept to measure the trained model on private records (`fedspd evaluate`)."""

    held_out: float | None = setting(
        None,
        "share of each client's persons, or records, that is never trained on, to measure the model on; absent: none",
        above=0, below=1,
    )  # fmt: skip
    share: float = setting(0.05, "the measurement's part of the squared budget", above=0, below=1)

    @property
    def kept(self) -> float:
        """Part of the squared budget that rounds leave alone."""
        return 0.0 if self.held_out is None else self.share
