"""The result of an audit as people see it: sentences, a section of a page, a picture, files of a run's folder."""

from pathlib import Path

from fedspd.report.figures import draw_ranges, to_png
from fedspd.report.numbers import reported
from fedspd.report.page import Chart, Grid, Section, Series
from fedspd.results import write_whole
from fedspd.results.audit import AuditRecord, Replayed

PICTURE = "audit.png"


def audit_sentences(found: AuditRecord) -> tuple[str, ...]:
    """What was claimed, what was tried, what came out, in plain words."""
    sure = f"with {100 * found.confidence:g} % confidence"
    tried = (
        f"The statement says that epsilon is at most {reported(found.claimed_epsilon, up=True):g} at delta "
        f"{found.delta:g}. The best attacker proved, {sure}, that it is at least "
        f"{reported(found.lower_bound, up=False):g}."
    )
    replay = found.replay
    moved = (
        "a record moved a value that carries no noise"
        if replay.worst_ratio is None
        else f"a record moved a release at most {replay.worst_ratio:.3f} times as far as declared{_where(replay)}"
    )
    later = (
        "later releases depend on records that they did not use"
        if replay.state_differs
        else "nothing but the release depended on it"
    )
    replayed = f"On {replay.pairs} pairs of neighboring shards {moved}, and {later}."
    replayed += "" if found.noise_is_fresh else " Noise comes back, or follows from a seed that others have."
    verdict = (
        "REFUTED: the statement does not hold."
        if found.refuted
        else "Not refuted. An audit can show that a statement is wrong, never that it is right: that takes a proof."
    )
    return tried, replayed, verdict


def _where(replay: Replayed) -> str:
    """In which round, and in which release of several."""
    worst = replay.worst
    if worst is None:
        return ""
    several = max(moved.release for moved in replay.ratios) > 1
    return f" (round {worst.round}{f', release {worst.release}' if several else ''})"


def audit_section(name: str, found: AuditRecord) -> Section:
    """Of a run's page: claim, attacks and bounds."""
    rows = tuple(
        (one.attack, reported(one.claimed_epsilon, up=True), reported(one.lower_bound, up=False), one.runs)
        for one in found.attacks
    )
    title = f"Audit of {name}" if name else "Audit"
    grid = Grid("Attacks", ("attacker", "claimed epsilon", "proved to leak", "runs on each of two shards"), rows)
    places = tuple(range(1, len(rows) + 1))
    chart = Chart(
        "Claim and attacks", "attack", f"epsilon at delta {found.delta:g}",
        (
            Series("claimed at most", places, tuple(one.claimed_epsilon for one in found.attacks)),
            Series("proved to leak", places, tuple(one.lower_bound for one in found.attacks)),
        ),
        markers=True,
    )  # fmt: skip
    return Section(title, audit_sentences(found), (chart,), (grid,))


def save_audit(folder: Path, found: AuditRecord) -> None:
    """audit.json and audit.png; earlier ones are replaced."""
    found.write(folder)
    names = [one.attack for one in found.attacks]
    bounds = [(one.lower_bound, one.claimed_epsilon) for one in found.attacks]
    title = f"What is proved to leak ({100 * found.confidence:g} % sure) and what is claimed"
    picture = draw_ranges(title, f"epsilon at delta {found.delta:g}", names, bounds)
    write_whole(folder / PICTURE, to_png(picture))
