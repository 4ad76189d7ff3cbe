"""Audits of every proved method, unit, sampling and trust, and of FedSPD-DP as published: lower bounds beside claims.

The minutes, of one core or about, decide how many runs a row has, whatever the machine. With ten minutes or more the
tables of docs/audit.md are written anew.

  python -m benchmarks.audit --minutes 10
  python -m benchmarks.audit --speed 1000000    that many pairs of runs of the paper's setting on all cores, timed
"""

import argparse
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.audit_claims import SAMPLINGS, TRUSTS, UNITS, Kind, claims, variants
from benchmarks.audit_games import LEAST, MOST, on_all_cores, played
from benchmarks.audit_limits import SAMPLED, jacobian_table, minimizers, runs_table, speed_table
from benchmarks.audit_records import FIGURE, canary_table, membership_table, rebuilt_table
from fedspd.algorithms.methods.fedspd_published import FedSPDPublished
from fedspd.algorithms.parts.step_sizes import Constant
from fedspd.audit.bounds import Claim, Lower
from fedspd.audit.target import Target
from fedspd.audit.verdict import Contest
from fedspd.engine.release import Drawn, release
from fedspd.evaluate.counting import Counting
from fedspd.privacy import WITHOUT_REPLACEMENT, plan_as_published
from fedspd.problem import L1, Objective, Softmax
from fedspd.testing import Statement, audit_mechanism

PAGE = Path(__file__).parents[1] / "docs" / "audit.md"
ENOUGH_TO_WRITE = 10.0  # minutes
ORDER = [*UNITS, *SAMPLINGS, *TRUSTS]
RATIOS, PARTICIPATIONS = (0.5, 0.1, 0.02, 0.004), (20, 50, 100)  # of rho Q over gamma
PUBLISHED = {"records": 10, "epsilon": 1.0, "delta": 1e-4}


def proved_tables(minutes: float) -> dict[str, Iterator[str]]:
    """Of all claims what share of each is proved to leak, of some the numbers and the limits; all share the error."""
    games = sum(map(len, claims().values())) + sum(map(len, variants().values())) + 1
    share = 1 / (games + 2 * len(SAMPLED) + len(minimizers()))
    return {
        "kinds": kinds_table(minutes, share),
        "proved": variants_table(minutes, share),
        "runs": runs_table(minutes, share),
        "jacobian": jacobian_table(minutes, share),
    }


def kinds_table(minutes: float, share: float) -> Iterator[str]:
    """A line for each method, a column for each kind of claim."""
    columns = sorted({kind[1:] for kind in claims()}, key=lambda kind: [ORDER.index(part) for part in kind])
    yield "| method | " + " | ".join(", ".join(parts) for parts in columns) + " |"
    yield "|---|" + "---|" * len(columns)
    methods = dict.fromkeys(kind.method for kind in claims())
    kinds = [[Kind(method, *parts) for parts in columns] for method in methods]
    games = [one for row in kinds for kind in row for one in claims().get(kind, [])]
    found = on_all_cores(partial(played, minutes=minutes, share=share), games)
    for method, row in zip(methods, kinds, strict=True):
        cells = []
        for kind in row:
            shares = [held(method, one.claim, next(found)[0]) for one in claims().get(kind, [])]
            cells.append(", ".join(shares) or "–")
        yield f"| {method} | " + " | ".join(cells) + " |"


def variants_table(minutes: float, share: float) -> Iterator[str]:
    """A line for each claim."""
    yield "| what | attacker | claimed ε | proved to leak | of the claim | runs |"
    yield "|---|---|---|---|---|---|"
    shown = {f"fedspd, {name}": one for name, one in variants().items()}
    games = [(name, one) for name, contests in shown.items() for one in contests]
    found = on_all_cores(partial(played, minutes=minutes, share=share), [one for _, one in games])
    for (name, contest), (lower, runs) in zip(games, found, strict=True):
        yield told(name, contest.attacker, contest.claim, lower, runs)
    claim, lower, runs = evaluation()
    yield told("evaluation: noised counts", "who reads the counts", claim, lower, runs)


def held(name: str, claim: Claim, lower: Lower) -> str:
    """The share of a claim that is proved to leak; a claim that does not hold ends the program."""
    if lower.epsilon > claim.epsilon:
        sys.exit(f"REFUTED: {name} claims {claim.epsilon:g}, and leaks at least {lower.epsilon:g}.")
    return f"{100 * lower.epsilon / claim.epsilon:.0f} %"


def told(name: str, attacker: str, claim: Claim, lower: Lower, runs: int) -> str:
    """A line of the table."""
    share = held(name, claim, lower)
    return f"| {name} | {attacker} | {claim.epsilon:.3f} | {lower.epsilon:.3f} | {share} | {runs:,} |"


def evaluation() -> tuple[Claim, Lower, int]:
    """Counts of a model's scores with noise, by the kit."""
    counting, scale, runs = Counting(("no", "yes"), 10), 4.0, 20_000
    places, weights, owners = np.arange(20)[:, None], np.ones(20), np.zeros(20, int)

    def mechanism(records: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        query = counting.query(records.astype(int), weights, owners, 1)
        return np.asarray(release(query, Drawn("gaussian", scale, rng.standard_normal((1, 20)))).value)

    statement = Statement(mu=counting.sensitivity("replace-one") / scale, delta=1e-5)
    return statement.claim, audit_mechanism(mechanism, statement, places, runs=runs), runs


def hidden_state(ratio: float, participations: int) -> tuple[Target, Claim]:
    """FedSPD-DP as published with one step on one record, calibrated by its own formulas to a total of 1."""
    setting = PUBLISHED
    algorithm = FedSPDPublished(Objective(Softmax(2), L1(1e-4), 1.0), 100, ratio, 1, Constant(1.0))
    plan = plan_as_published(
        setting["epsilon"], "total", setting["delta"], WITHOUT_REPLACEMENT, 1, np.array([setting["records"]]),
        participations,
    )  # fmt: skip
    target = Target(
        algorithm, WITHOUT_REPLACEMENT, 1, int(setting["records"]), 1.0, plan.noise_multiplier, participations, 2, None
    )
    return target, Claim(setting["epsilon"], setting["delta"])


def published_table(minutes: float) -> Iterator[str]:
    """Lower bounds of runs that all claim the same, by how much state stays and how often a client takes part."""
    yield "| ρQ/γ | " + " | ".join(f"{count} participations" for count in PARTICIPATIONS) + " |"
    yield "|---|" + "---|" * len(PARTICIPATIONS)
    cells = [Contest("a server", *hidden_state(ratio, count)) for ratio in RATIOS for count in PARTICIPATIONS]
    bounds = on_all_cores(partial(played, minutes=minutes, share=1 / len(cells)), cells)
    for ratio in RATIOS:
        found = [next(bounds)[0].epsilon for _ in PARTICIPATIONS]
        told = [f"**{one:.2f}**" if one > PUBLISHED["epsilon"] else f"{one:.2f}" for one in found]
        yield f"| {ratio:g} | " + " | ".join(told) + " |"


def written(page: str, name: str, lines: list[str]) -> str:
    """The page with a table in its place."""
    block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    return block.sub(lambda found: found[1] + "\n".join(["", *lines, "", ""]) + found[2], page)


def tables_of(minutes: float) -> dict[str, Iterator[str]]:
    """By their places in the page."""
    runs = int(np.clip(20_000 * minutes, LEAST, MOST))
    return {
        "membership": membership_table(runs, FIGURE if minutes >= ENOUGH_TO_WRITE else None),
        "canaries": canary_table(),
        "rebuilt": rebuilt_table(),
        **proved_tables(minutes),
        "published": published_table(minutes),
        "speed": speed_table(int(np.clip(2000 * minutes, LEAST, MOST))),
    }


def main() -> None:
    """Print the tables, and write them where there was time enough."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--minutes", type=float, default=ENOUGH_TO_WRITE)
    arguments.add_argument("--speed", type=int, metavar="PAIRS", help="only time so many games, on all cores")
    given = arguments.parse_args()
    if given.speed is not None and given.speed < LEAST:
        arguments.error(f"expected at least {LEAST} pairs, got {given.speed}; fewer prove nothing.")
    tables = tables_of(given.minutes) if given.speed is None else {"speed": speed_table(given.speed)}
    lines: dict[str, list[str]] = {name: [] for name in tables}
    for name, table in tables.items():
        for line in table:
            print(line, flush=True)
            lines[name].append(line)
    if given.minutes >= ENOUGH_TO_WRITE and given.speed is None:
        page = PAGE.read_text("utf-8")
        for name, found in lines.items():
            page = written(page, name, found)
        PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
