"""What is claimed of rows that trust somebody, in place of the others' claim: by numbers of the runs themselves."""

from collections.abc import Sequence

from fedspd.results import Summary
from fedspd.studies.compare.run import Entry
from fedspd.studies.lineup import SECURE_SUMS, TRUSTED_SERVER
from fedspd.studies.relied import colluding, largest_alone

CLAIM = (
    "{sums}: against a server, honest or not, that sees sums of cohorts only, if at most {colluding} members of a "
    "cohort collude and the cryptography of secure sums holds. Without these assumptions, by a client's own noise "
    "alone, with delta {delta:g}: {alone}."
)
TRUSTED = f"{TRUSTED_SERVER}: against everybody but the server."


def relied_on(entries: Sequence[Entry]) -> str:
    """Who must not collude, and what holds if they do, at each budget; nothing where nobody relies on others."""
    sums, trusted = (
        [entry for entry in entries if entry.cell.method == method] for method in (SECURE_SUMS, TRUSTED_SERVER)
    )
    return " ".join([*([_of_sums(sums)] if sums else []), *([TRUSTED] if trusted else [])])


def _of_sums(entries: Sequence[Entry]) -> str:
    alone = {
        budget: largest_alone(_summaries([entry for entry in entries if entry.cell.epsilon == budget]))
        for budget in sorted({entry.cell.epsilon for entry in entries})
    }
    return CLAIM.format(
        sums=SECURE_SUMS,
        colluding=colluding(_summaries(entries)),
        delta=entries[0].cell.ground.delta,
        alone=", ".join(f"{own} where epsilon is {budget:g}" for budget, own in alone.items()),
    )


def _summaries(entries: Sequence[Entry]) -> list[Summary]:
    return [result.summary for entry in entries for result in entry.results]
