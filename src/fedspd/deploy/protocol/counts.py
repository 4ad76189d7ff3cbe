"""What a run counts of held-out records after its last round, by the same rule at the server and every site.

All of it follows from the common terms: share, bins, subgroup and noise. A request has the model in it, nothing else.
"""

from typing import TYPE_CHECKING

import numpy as np

from fedspd.assemble.records.held_out import check_relation
from fedspd.data import Schema
from fedspd.errors import InputError
from fedspd.evaluate.counting import Counting, counting_under

if TYPE_CHECKING:
    from fedspd.deploy.protocol.terms import Terms

MOST_CELLS = 10**5
"""That are counted: a site computes as many numbers, and sends them."""


def check_counts(terms: "Terms", schema: Schema) -> None:
    """Refuse terms by which nothing could be counted, or whose proof would speak of something else."""
    share = terms.config.evaluation.held_out
    if (share is None) != (not terms.bins) or (share is None and terms.subgroup):
        raise InputError("expected terms that fit together, got others; update both sides.")
    if share is None:
        return
    if terms.unit == "client":
        raise InputError(
            f"a share of a whole site cannot be held out, got evaluation.held_out = {share:g} with privacy.unit = "
            "client; leave out evaluation.held_out, or protect records or persons."
        )
    if cells_of(counting := counting_of(terms, schema)) > MOST_CELLS:
        raise InputError(
            f"at most {MOST_CELLS} cells are counted between sites, got more; lower measure.bins, or leave out "
            "measure.subgroup."
        )
    assert counting.classes, "a deployed run predicts classes"
    check_relation(terms.config, schema.person is not None)
    if not terms.held_out.all():
        raise InputError(
            f"evaluation.held_out must leave every site something to measure on, got {share:g} of a site with "
            f"{min(terms.sizes)} {terms.unit}s; raise it."
        )


def counting_of(terms: "Terms", schema: Schema) -> Counting:
    """The tables of counts."""
    return counting_under(schema, terms.bins, terms.subgroup or None)


def cells_of(counting: Counting) -> int:
    """How many counts there are."""
    return int(sum(np.prod(shape, dtype=float) for shape in counting.shapes))
