"""What people are told about a method: its source, what leaves a client, what its authors claim and what holds here."""

from dataclasses import dataclass
from typing import NamedTuple

SEVERAL, ONE_SGD, ONE_GD, EXACT = "several SGD steps", "one SGD step", "one GD step", "exact minimization"
"""Local updates. Table 1 calls the first three LMSGD, LSGD and LGD, and exact minimizers LGD too."""
NON_SMOOTH = "convex, non-smooth"
SMOOTH = "convex, smooth"
A_TOTAL = "(ε, δ)-DP of every record over all rounds, by the proof in docs/proofs.md."
PURE_ROUNDS = "pure DP of a round; rounds compose to (ε, δ)-DP of every record, by the proof in docs/proofs.md."
MINIMIZERS = (
    "pure DP of a round for exact minimizers, and a Gaussian on computed ones; all compose to (ε, δ)-DP of every "
    "record, by the proof in docs/proofs.md."
)
NO_TOTAL = "the total is a formula without a proof"
HIDDEN = "un-noised state is carried from round to round"
EVERY_UPLOAD = "anyone who sees every upload and every model, the server included"


class Printed(NamedTuple):
    """A row of Table 1 of the FedSPD-DP paper (arXiv 2204.12284), its shorthand in words."""

    local_updates: str
    objective: str
    partial: bool
    rate: str


@dataclass(frozen=True, kw_only=True)
class Card:
    """What the class and the settings of a method do not say.

    Args:
        title: as tables and figures call it.
        released: what leaves a client.
        claimed: by its authors, one sentence.
        proved: what holds here and where the proof is, one sentence; "" where nothing is proved.
        caveat: why it is not proved.
        private_state: what a client has un-noised beside its query.
        adversary: against whom the claim stands.
        reconstruction: known by its abstract, or from others, only.
        confidence: high, medium or low, and where the text of the method comes from.
        baseline: whether the FedSPD-DP paper compares itself with it.
        table_1: its place among the rows of Table 1 and what is cited beside them.
        printed: that row.
        rate: of convergence, T rounds of Q local steps; "" where none is known for what runs here.
    """

    title: str
    citation: str
    released: str
    claimed: str
    confidence: str
    proved: str = ""
    caveat: str = ""
    private_state: str = ""
    adversary: str = EVERY_UPLOAD
    reconstruction: bool = False
    baseline: bool = False
    table_1: int | None = None
    printed: Printed | None = None
    rate: str = ""
