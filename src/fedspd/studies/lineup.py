"""Who is on the leaderboard, with what each method changes of a common configuration."""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import fields
from math import inf
from typing import Any

from fedspd.algorithms import METHODS

Settings = dict[str, Any]


class EnteredMethods(Mapping[str, Settings]):
    """Titles of all methods with a guarantee, and what each changes; those that users bring come in when they do."""

    def __init__(self, *guarantees: str) -> None:
        self._guarantees = guarantees

    def _all(self) -> dict[str, Settings]:
        return {
            method.card.title: {"algorithm.name": name, **method.compared}
            for guarantee in self._guarantees
            for name, method in METHODS.items()
            if method.guarantee == guarantee
        }

    def __getitem__(self, title: str) -> Settings:
        return self._all()[title]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


PRIVATE = EnteredMethods("proved")
"""Equal to the last digit of epsilon, by proof."""
CLAIMED = EnteredMethods("as published")
"""With the epsilon that their authors claim, and scaling that nobody pays for: beside the board, not on it."""
OPEN = EnteredMethods("none")
OURS = METHODS["fedspd"].card.title
BY_RULE: dict[str, Settings] = {f"{OURS} by rule": {"algorithm.name": "fedspd"}}
"""Not tuned: step sizes by rules on public numbers, whose constants were set once on a validation split of Adult."""
EACH_UPLOAD, SECURE_SUMS, TRUSTED_SERVER = (
    f"{OURS} by rule, {trust}" for trust in ("each upload noised", "secure sums", "trusted server")
)
TRUST: dict[str, Settings] = {
    EACH_UPLOAD: {"algorithm.name": "fedspd", "run.rounds": None},
    SECURE_SUMS: {"algorithm.name": "fedspd", "run.rounds": None, "privacy.trust": "secure-sums"},
    TRUSTED_SERVER: {
        "algorithm.name": "fedspd", "run.rounds": None, "privacy.trust": "secure-sums", "privacy.colluders": 0,
    },
}  # fmt: skip
"""What a change of trust is worth, with all clients and as many rounds as the rule wants: beside the board, not on it.

A trusted server adds the noise once: as if all members of one cohort were honest and always there.
"""
UNTUNED = ChainMap(BY_RULE, TRUST)
OPEN_DATA: Settings = {"data.scaling": "z-score", "data.bias": 1.0, "problem.clip_norm": inf}
CLAIMED_DATA: Settings = OPEN_DATA | {"problem.clip_norm": 1.0}
EVERYBODY: Mapping[str, Settings] = ChainMap(TRUST, OPEN, CLAIMED, BY_RULE, PRIVATE)  # pyright: ignore[reportArgumentType]


def first_try(name: str | None) -> Settings:
    """Values for what a method cannot do without, until it is tuned: of the first point of its grid."""
    if name is None:
        return {}
    method = METHODS.find(name)
    needed = {f"algorithm.{key.name}" for key in fields(method.settings) if "needed" in key.metadata}
    return {key: value for key, value in method.grid[0].items() if key in needed}


def name_of(title: str) -> str:
    """Of the method behind a title."""
    return str(EVERYBODY[title]["algorithm.name"])


def company(title: str) -> str:
    """Which figure a method is drawn in: beside ours there are too many for one."""
    card = METHODS[name_of(title)].card
    if card.baseline:
        return "the paper's baselines"
    return "rivals" if card.table_1 is None else "the rest of Table 1"


def fits(title: str, deal: str, share: str) -> bool:
    """Whether a method is for such a situation.

    Some need every client in every round, and to stop after one round some would leave most clients out; batches of a
    fixed size need clients that can fill them. What is as published is for records dealt as the paper deals them.
    """
    name, changes = name_of(title), EVERYBODY[title]
    everyone = METHODS[name].needs.everybody or "run.rounds" in changes  # with trust, what they may choose
    return (share == "full" or not everyone) and (
        deal == "iid" or (title not in CLAIMED and "algorithm.batch_size" not in changes)
    )
