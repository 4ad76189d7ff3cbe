"""A run's summary for the terminal."""

import math

from rich.table import Table
from rich.text import Text

from fedspd.escaping import escaped
from fedspd.report.numbers import at_most
from fedspd.report.tables import NOTHING
from fedspd.results import SITES, Number, Summary, words

LONG = 1e15  # numbers from here on are written with an exponent
WEAK_EPSILON = 10.0
DIAGNOSTICS = {
    "objective": "the objective", "alfv": "ALFV", "consensus_error": "the consensus error",
    "clipped_share": "the share of clipped gradients", "convergence": "the criterion",
    "optimum_accuracy": "the optimum's accuracy", "optimum_explained": "what the optimum explains",
    "optimum_loss": "the optimum's loss",
}  # fmt: skip
"""What a simulator computes from records for its summary."""


DIVERGED = (
    "weights or errors grew without bound, so the model is of no use and its accuracy says nothing; take shorter steps "
    "or more penalty, or a larger budget"
)

HELP = "a larger epsilon, more records, sums without single uploads (privacy.trust) or fewer columns"
"""Against noise that outweighs what records say."""


def beaten(summary: Summary) -> str:
    """That the model is worse than no model, and what would help; empty where it is not, or diverged."""
    if summary.diverged or not summary.beaten:
        return ""
    if summary.guarantee == "none":
        return f"worse than {summary.beaten}; other steps or more rounds may help"
    bounds = "" if summary.test_explained is None else ", and bounds of the target that are no wider than they must be"
    return f"worse than {summary.beaten}: noise outweighs what the records say; {HELP} would help{bounds}"


def privacy_statement(summary: Summary) -> str:
    """One paragraph: unit, relation, sampling, mechanism, adversary, numbers, and how far they can be relied on."""
    if summary.guarantee == "none":
        return "No privacy: this run added no noise."
    claim = (
        f"({at_most(summary.epsilon)}, {summary.delta:g})-differential privacy, {summary.guarantee}; "
        f"unit: {protected(summary.unit)}; neighbors: {summary.relation}; records in a round: "
        f"{summary.sampling.replace('-', ' ')}; mechanism: {_noise(summary.mechanism)}; "
        f"adversary: {summary.adversary}; accountant: {summary.accountant}. "
    )
    claim += _sums(summary)
    if summary.conversion:
        claim += f"Conversion: {summary.conversion}. "
    claim += "".join(f"{warning} " for warning in warnings(summary.epsilon, summary.delta, summary.records))
    if summary.guarantee == "proved":
        scaling = "the release of scaling included" if summary.scaling_charged else "scaling by public bounds"
        unless = f", {UNLESS_CHOSEN}" if summary.engine == SITES else ""
        spent = f"In this run no client spent more than {at_most(summary.epsilon_spent_max)}, {scaling}{unless}. "
        return _standing(summary) + claim + spent + _precision(summary) + _not_covered(summary)
    return (
        _standing(summary)
        + claim
        + (
            f"Epsilon as published {at_most(summary.epsilon)}, by realized participations up to "
            f"{at_most(summary.epsilon_spent_max)}; epsilon proved: none, since {summary.unproved_because} "
            "(docs/privacy.md). Do not rely on it for real records."
        )
    )


UNLESS_CHOSEN = "unless whom the server asked depended on what was released"
"""A number for the rounds that were made is a bound if these were not chosen by releases: the engine ensures that in a
simulation, and nobody does of a server (docs/proofs/budgets.md, lemma 18). The budget holds either way."""

FIXED_DRAWS = "the server fixed all draws by a seed, and whoever has it can subtract the noise"
UNITS = {"person": "all records of one person at a client", "client": "all records of one client"}


def protected(unit: str) -> str:
    """What is protected, in words."""
    return UNITS.get(unit, f"one {unit} of a client")


def _sums(summary: Summary) -> str:
    """What the claim rests on where members of a cohort share their noise, and what holds without it."""
    if summary.trust == "each-upload":
        return ""
    return (
        f"It holds if at most {summary.colluders} of the {summary.members} members of a record's cohort collude and "
        f"the cryptography of secure sums does; any sum holds at least {summary.threshold} members. Without these "
        f"assumptions, by a client's own noise alone: ({at_most(summary.epsilon_alone)}, {summary.delta:g}). "
    )


def warnings(epsilon: Number, delta: float, records: int | None = None) -> list[str]:
    """What must be said of numbers that promise little, whatever is proved about them."""
    found = []
    if epsilon is not None and epsilon > WEAK_EPSILON:
        found.append(
            f"Warning: epsilon is above {WEAK_EPSILON:g}, where what is proved protects little: a record may change "
            f"the odds of what is released by a factor of e^{at_most(epsilon)}."
        )
    if records is not None and delta * records >= 1:
        found.append(
            f"Warning: delta is not below 1 / {records}, so that even a method that publishes some record whole could "
            "keep this promise."
        )
    return found


def _standing(summary: Summary) -> str:
    """With a seed of one's own a simulation shows what a method would do; its noise protects nobody."""
    if summary.engine == SITES:
        return "" if summary.seed is None else f"For tests, {FIXED_DRAWS}. "
    if summary.seed is None:
        return "The noise comes from a seed that the operating system drew and nobody kept. "
    return "A simulation: its noise follows from the seed, so whoever has the settings can subtract it. "


def _precision(summary: Summary) -> str:
    if summary.precision != "float32":
        return ""
    return "Computed in float32, whose normals have compact support: for experiments only. "


def _not_covered(summary: Summary) -> str:
    known = diagnostics(summary)
    if summary.engine == SITES:
        return "Covered are all releases; nothing else left a site."
    tested = (
        f" Not covered either: the {summary.test_records} records that models were measured on."
        if summary.seed is None and summary.test_records
        else ""
    )
    if not known:
        return f"Covered are all releases; nothing else was kept of the records that were trained on.{tested}"
    return f"Covered are all releases; not covered, and without noise: {', '.join(known)}.{tested}"


def diagnostics(summary: Summary) -> list[str]:
    """What a simulation kept that was computed from records without noise."""
    return [phrase for name, phrase in DIAGNOSTICS.items() if _is_known(summary[name])]


def _is_known(value: object) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _noise(mechanism: str) -> str:
    law, _, where = mechanism.partition(", ")
    in_objective = f"{law} noise in the objective of every release and a small Gaussian on its minimizer"
    return in_objective if where else f"{law} noise on every release"


def summary_table(summary: Summary) -> Table:
    """The numbers a person wants first."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    for name, value in summary_rows(summary).items():
        table.add_row(Text(escaped(name)), Text(escaped(value)))
    return table


def summary_rows(summary: Summary) -> dict[str, str]:
    """The numbers a person wants first, by name, those that are known."""
    measured = summary.convergence
    rows = {
        "algorithm": summary.title,
        "clients": f"{summary.clients} ({summary.participants} per round, {summary.rounds} rounds)",
        "diverged": DIVERGED if summary.diverged else "",
        "test accuracy": "" if summary.diverged else _accuracy(summary),
        "explained of the test set": "" if summary.diverged else _explained(summary),
        "beware": beaten(summary),
        words("objective"): _known(summary.objective, "{:.4f}"),
        words("alfv"): _known(summary.alfv, "{:.4f}"),
        "|x0|": _number(summary.weights_norm, ".4g"),
        "clipped gradients": _known(summary.clipped_share, "{:.1%}").replace("%", " %"),
    }
    if measured is not None:
        least = measured.optimal_objective
        rows["optimal objective"] = "not known: no solver came near it" if least is None else _number(least, ".4f")
        rows["criterion H"] = _number(measured.criterion, ".4f") + (
            f"  (Theorem 2 allows {measured.bound:.4g})" if measured.bound is not None else ""
        )
        for name, condition in measured.conditions.items():
            rows[name] = f"{'holds' if condition.holds else 'fails'}: {condition.detail}"
    if summary.stopped:
        rows["stopped"] = summary.stopped
    rows[words("noise_multiplier")] = _number(summary.noise_multiplier, ".5g")
    rows[words("epsilon_per_round")] = at_most(summary.epsilon_per_round)
    rows["wall time"] = f"{summary.wall_seconds:.2f} s"
    return {name: value for name, value in rows.items() if value}


def _accuracy(summary: Summary) -> str:
    last, average, majority = (
        _known(summary[key], "{:.2%}").replace("%", " %")
        for key in ("test_accuracy", "test_accuracy_average", "majority_accuracy")
    )
    return last and f"{last}  (averaged over the last rounds {average}, majority class {majority})"


def _explained(summary: Summary) -> str:
    """Of a number or a count, with its error beside that of always predicting the mean."""
    reached = _known(summary.test_explained, "{:.2%}").replace("%", " %")
    errors = {"mean absolute error": "mae", "mean deviance": "deviance"}
    beside = [
        f"{name} {_number(summary[f'test_{key}'], '.4g')}, of the mean {_number(summary[f'trivial_{key}'], '.4g')}"
        for name, key in errors.items()
        if summary[f"trivial_{key}"] is not None
    ]
    return reached and f"{reached}  ({', '.join(beside)})"


def _number(value: Number, form: str) -> str:
    return NOTHING if value is None else f"{value:{form}}" if abs(value) < LONG else f"{value:.4g}"


def _known(value: Number, form: str) -> str:
    """A number as text; nothing where it is not known, as a simulator's diagnostics are not between real sites."""
    if value is None or not math.isfinite(value):
        return ""
    return form.format(value) if abs(value) < LONG else f"{value:.4g}"
