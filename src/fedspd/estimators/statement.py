"""What a fitted estimator says about privacy."""

from dataclasses import dataclass
from html import escape

from fedspd.report import privacy_statement
from fedspd.report.of_runs.terminal import protected
from fedspd.results import Summary


@dataclass(frozen=True)
class Privacy:
    """The guarantee of a fit, in words and numbers; printing it gives the words."""

    summary: Summary
    public: tuple[str, ...]  # what was taken as public knowledge

    @property
    def epsilon(self) -> float:
        """Of the whole fit."""
        return float("nan") if self.summary.epsilon is None else self.summary.epsilon

    @property
    def delta(self) -> float:
        """Of the whole fit."""
        return self.summary.delta

    @property
    def epsilon_alone(self) -> float:
        """Of the whole fit if everybody else colludes: larger than `epsilon` where only sums of clients are seen."""
        alone = self.summary.epsilon_alone
        return self.epsilon if alone is None else alone

    @property
    def protects(self) -> str:
        """What is protected."""
        return protected(self.summary.unit)

    @property
    def statement(self) -> str:
        """The claim, whom it holds against, what it does not cover, and what was taken as public."""
        return f"{privacy_statement(self.summary)} Taken as public: {', '.join(self.public)}."

    def __str__(self) -> str:
        return self.statement

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p><strong>Privacy.</strong> {escape(self.statement)}</p>"
