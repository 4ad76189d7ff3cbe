"""What was looked at when a statement was held against a ledger, and what differs."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fedspd.privacy.second_accountant import SecondOpinion

LATER = "ledger.charges_after_the_statement"


class Difference(NamedTuple):
    """A number that is not what it should be."""

    where: str
    stated: Any
    found: Any


@dataclass
class Comparison:
    """What was looked at, and what differs."""

    looked_at: int = 0
    differences: list[Difference] = field(default_factory=list)

    def as_dicts(self) -> list[dict[str, Any]]:
        """What differs, as values JSON can hold."""
        return [one._asdict() for one in self.differences]

    def is_outdated(self) -> bool:
        """Whether the run was charged after its statement was made."""
        return any(one.where == LATER for one in self.differences)

    def equal(self, where: str, stated: Any, found: Any) -> None:
        """Expect the same value."""
        self.looked_at += 1
        if stated != found:
            self.differences.append(Difference(where, stated, found))

    def holds(self, where: str, stated: Any, true: bool, instead: Any) -> None:
        """Expect something to be true of what is stated."""
        self.equal(where, stated, stated if true else instead)

    def near(self, where: str, stated: float | None, found: SecondOpinion | None) -> None:
        """Expect what another accountant does not contradict."""
        self.looked_at += 1
        if (stated is None) != (found is None) or (found is not None and not found.agrees(float(stated or 0.0))):
            self.differences.append(Difference(where, stated, None if found is None else found.epsilon))

    def enough(self, where: str, stated: float | None, found: SecondOpinion) -> None:
        """Expect at least what another accountant finds."""
        self.looked_at += 1
        if stated is None or found.exceeds(stated):
            self.differences.append(Difference(where, stated, found.epsilon))

    def at_least(self, where: str, stated: float, least: float) -> None:
        """Expect a count that is not smaller than another one."""
        self.equal(where, stated, max(stated, least))
