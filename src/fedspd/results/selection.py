"""The choice between finished models by private records, as it is kept: charged once, read again for free."""

from dataclasses import asdict, dataclass
from pathlib import Path

from fedspd.errors import InputError
from fedspd.results.evaluation import Measure
from fedspd.results.files import own_file, to_json, write_whole
from fedspd.results.typed_json import made, read_json

SELECTION = "selection.json"


@dataclass(frozen=True)
class Selection:
    """Noised scores of all candidates, and the best of them."""

    runs: tuple[str, ...]  # folders, as they were named
    names: tuple[str, ...]  # of the runs, on the ledger
    chosen: int  # place among them
    scores: tuple[Measure, ...]
    records: int  # that were held out and scored
    sensitivity: float
    noise_multiplier: float
    noise: float  # standard deviation on each score
    epsilon: float  # of this release alone
    delta: float
    number: int = 1  # 1 is the first choice between these runs, and so on
    model: str = "last"  # that was scored of each run: of the last round, or the "average" of the last rounds

    def answers(self, names: tuple[str, ...], model: str) -> bool:
        """Whether it is the choice between these runs, in whatever order, by these models."""
        return (named_together(self.names), self.model) == (named_together(names), model)


def named_together(names: tuple[str, ...]) -> str:
    """What ledgers call a choice between runs: the names of all of them."""
    return " ".join(sorted(names))


def write_selection(folder: Path, selection: Selection) -> None:
    """Put it into the folder of the first candidate."""
    write_whole(folder / SELECTION, (to_json(asdict(selection)) + "\n").encode(), durable=True)


def read_selection(folder: Path) -> Selection | None:
    """What was chosen between a run and others, None where nothing was."""
    path = own_file(folder, SELECTION)
    if not path.exists():
        return None
    try:
        found: Selection = made(Selection, read_json(path))
        if not 0 <= found.chosen < len(found.runs) == len(found.names) == len(found.scores):
            raise ValueError("not one score for each run, or none chosen of them")
        return found
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} must be as this version of fedspd select writes it, got something else ({error}); put it back."
        ) from error
