"""The page of a comparison: the summary over all data, then for each data its leaderboard and figures."""

from collections.abc import Sequence
from math import inf

import tomli_w

from fedspd.algorithms import METHODS
from fedspd.report.page import Page, Section
from fedspd.results import environment
from fedspd.studies.compare.charts import bytes_charts, epsilon_charts, figures, groups, trust_charts
from fedspd.studies.compare.plan import Refused
from fedspd.studies.compare.run import Central, Entry
from fedspd.studies.compare.standing import standing
from fedspd.studies.compare.tables import defeats, leaderboard, narrow, place_name, summary
from fedspd.studies.compare.trust import relied_on
from fedspd.studies.folder import StudyReport
from fedspd.studies.jobs import on_own_records
from fedspd.studies.lineup import BY_RULE, CLAIMED, PRIVATE, name_of
from fedspd.studies.tuning import PROTOCOL

STATEMENT = (
    "Every method marked proved is (epsilon, {delta:g})-differentially private end to end: unit one record of a "
    "client, replace-one neighbors, noise on every release, scaling charged, against anyone who sees every upload and "
    "every model, the server included{but}. The budget is the total over all rounds. Rows without an epsilon have no "
    "privacy."
)
PURE = (
    "Conversion: {methods} release with spherical Laplace noise, so that each round is purely private, but for a small "
    "Gaussian where that noise is in an objective. Rounds and the Gaussian release of moments are composed to "
    "(epsilon, {delta:g}) by a bound on the losses of such noise in as many dimensions as there are weights, or by "
    "their epsilons alone where that is better (docs/accounting.md)."
)
CLAIMS = (
    "Methods marked as published have the epsilon that their authors claim, which is not proved, on data whose scaling "
    "is not charged: their rows are not comparable, and are left out of every count."
)
BUT = " (but for rows that trust somebody, see below)"
BESIDE = (
    "Rows under secure sums and a trusted server have as many rounds as the rule wants. They are left out of every "
    "count: the others trust nobody."
)
CLASSES = (
    "Class 1 is the method with the best mean and all that cannot be told apart from it; class 2 the best of the rest "
    "and all of these that cannot be told apart from it; and so on. Two methods are told apart if Student’s two-sided "
    "test of their differences, paired over {seeds} seeds, says so at 5 % after Holm’s correction over all pairs of "
    "the situation. Seeds stand for other deals and other noise, not for other records."
)
ONE_SEED = "One seed tells no methods apart: there are no classes and no summary."


def comparison_study(
    entries: Sequence[Entry], centrals: Sequence[Central], seeds: int, refused: Sequence[Refused] = ()
) -> StudyReport:
    """Leaderboard, summary, where our method is behind, and the figures."""
    over_all = {**summary(entries), **defeats(entries)}
    return StudyReport(
        page=comparison_page(entries, centrals, seeds, refused),
        told=(*narrow(entries, centrals), *over_all.values()),
        grids={"leaderboard": leaderboard(entries, centrals), **over_all},
        figures=figures(entries, centrals),
        private=bool(on_own_records(entry.config for entry in entries)),
    )


def comparison_page(
    entries: Sequence[Entry], centrals: Sequence[Central], seeds: int, refused: Sequence[Refused]
) -> Page:
    """Privacy, where methods stand over all data, then one section for each data, the configurations."""
    classes = CLASSES.format(seeds=seeds) if seeds > 1 else ONE_SEED
    sections = (
        Section("Classes of methods", (classes, *_left_out(refused)), grids=tuple(summary(entries).values())),
        Section("Where FedSPD-DP stands", standing(entries, seeds), grids=tuple(defeats(entries).values())),
        *(_section(entries, central, seeds) for central in centrals),
    )
    return Page(
        title="All methods at equal privacy",
        privacy=(*_statements(entries), PROTOCOL),
        sections=sections,
        configurations=tuple((_name(entry), tomli_w.dumps(entry.config.to_dict())) for entry in entries),
        environment=environment(),
    )


def _section(entries: Sequence[Entry], central: Central, seeds: int) -> Section:
    here = [entry for entry in entries if entry.cell.ground == central.ground]
    companies = groups(here).items()
    charts = tuple(
        chart
        for draw in (epsilon_charts, bytes_charts)
        for name, group in companies
        for chart in draw(group, central, name)
    )
    charts += trust_charts(here, central, "under three kinds of trust")
    return Section(
        f"Leaderboard: {central.ground.name}",
        (_about(central, seeds),),
        charts=charts,
        grids=(leaderboard(here, [central]),),
    )


def _left_out(refused: Sequence[Refused]) -> tuple[str, ...]:
    return tuple(
        f"Not entered on {one.ground.name}{one.situation and f' ({one.situation})'}: {one.method}. It says: {one.why}"
        for one in refused
    )


def _statements(entries: Sequence[Entry]) -> tuple[str, ...]:
    """What is claimed, how pure privacy was converted, and what is not comparable, as far as it is there."""
    delta = entries[0].cell.ground.delta
    titles = dict.fromkeys(entry.cell.label for entry in entries if _is_pure(entry) and entry.cell.method in PRIVATE)
    pure = (PURE.format(methods=", ".join(titles), delta=delta),) if titles else ()
    claims = (CLAIMS,) if any(entry.cell.method in CLAIMED for entry in entries) else ()
    relied = relied_on(entries)
    sums = (f"{relied} {BESIDE}",) if relied else ()
    statement = STATEMENT.format(delta=delta, but=BUT if relied else "")
    return (statement, *pure, *claims, *sums, *on_own_records(entry.config for entry in entries))


def _is_pure(entry: Entry) -> bool:
    return METHODS[name_of(entry.cell.method)].noise == "spherical Laplace"


def _about(central: Central, seeds: int) -> str:
    return (
        f"Means over {seeds} seeds with standard errors. {', '.join(BY_RULE)}: not tuned, step sizes by rules on "
        "public numbers, whose constants were set once on a validation split of Adult. "
        f"{central.title} on all records together, without privacy: {central.score:.2f} %, {central.loss_name} "
        f"{central.loss:.4f}. Uploads are counted at eight bytes a number."
    )


def _name(entry: Entry) -> str:
    cell = entry.cell
    budget = "without privacy" if cell.epsilon == inf else f"epsilon {cell.epsilon:g}"
    return f"{place_name(*cell.place)}, {budget}: {cell.label}"
