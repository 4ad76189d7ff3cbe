"""What keeps a proved epsilon below its claim, in numbers: runs, tails of minimizers, and how fast games are played."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from benchmarks.audit_claims import Kind, claims
from benchmarks.audit_games import bound_of, on_all_cores, played, scores_of, timed
from fedspd import config as configuration
from fedspd.assemble.finished.audited import contests_of
from fedspd.audit.bounds import Claim, Lower
from fedspd.audit.verdict import Contest
from fedspd.privacy.accounting import Event, Minimizer, spent
from fedspd.privacy.accounting.minimizers import minimizer_event

FEWER, MORE = 1.0, 5.0  # times the runs of a cell
SAMPLED = {name: Kind("fedspd", "records", name, "uploads") for name in ("batches", "Poisson")}


class JacobianKept(Claim):
    """A claim whose family has other noise and the same Jacobian, where that of the audit shrinks it with the noise."""

    def with_noise(self, factor: float) -> Claim:
        """What the claim would be with so many times the noise."""
        history = tuple((louder(event, factor), count) for event, count in self.history)
        return JacobianKept(spent(history, self.delta).epsilon, self.delta, history)


def minimizers() -> dict[str, Contest]:
    """Claims that pay for the Jacobian of a minimizer."""
    found = {
        kind.method: contests[0] for kind, contests in claims().items() if kind[1:] == ("records", "whole", "uploads")
    }
    return {name: one for name, one in found.items() if any(map(jacobian, (event for event, _ in one.claim.history)))}


def jacobian(event: object) -> float:
    """What a release pays for it."""
    return event.jacobian if isinstance(event, Minimizer) else 0.0


def louder(event: Event, factor: float) -> Event:
    """The release with so many times the noise, on a minimizer too."""
    multiplier = event.noise_multiplier * factor
    if isinstance(event, Minimizer):
        return minimizer_event(multiplier, event.jacobian, event.dimension, event.directions)
    return replace(event, noise_multiplier=multiplier)


def jacobian_table(minutes: float, share: float) -> Iterator[str]:
    """What is left of claims for the noise alone, and what games prove with and without a Jacobian that shrinks."""
    yield "| method | coordinates | claimed ε | without the Jacobian | proved to leak | with the Jacobian kept |"
    yield "|---|---|---|---|---|---|"
    contests = minimizers()
    found = on_all_cores(partial(both_families, minutes=minutes, share=share), contests.values())
    for (name, contest), (shrinking, kept) in zip(contests.items(), found, strict=True):
        claim, (columns, outputs) = contest.claim, contest.target.matrix
        numbers = (claim.epsilon, without_jacobian(claim), shrinking.epsilon, kept.epsilon)
        yield f"| {name} | {columns * outputs} | " + " | ".join(f"{one:.2f}" for one in numbers) + " |"


def without_jacobian(claim: Claim) -> float:
    """Epsilon of the noise alone."""
    events = [(replace(event, jacobian=0.0) if jacobian(event) else event, count) for event, count in claim.history]
    return spent(tuple(events), claim.delta).epsilon


def both_families(contest: Contest, minutes: float, share: float) -> tuple[Lower, Lower]:
    """The bound of an audit, and that of a family with the Jacobian kept, from one game."""
    scores, claim = scores_of(contest, minutes), contest.claim
    kept = JacobianKept(claim.epsilon, claim.delta, claim.history)
    return bound_of(scores, claim, share), bound_of(scores, kept, share)


def runs_table(minutes: float, share: float) -> Iterator[str]:
    """What more runs prove where records are sampled."""
    yield "| fedspd, records | runs | of the claim |"
    yield "|---|---|---|"
    rows = [(name, times) for name in SAMPLED for times in (FEWER, MORE)]
    games = [claims()[SAMPLED[name]][0] for name, _ in rows]
    found = on_all_cores(partial(played, share=share), games, [minutes * times for _, times in rows])
    for (name, _), contest, (lower, runs) in zip(rows, games, found, strict=True):
        yield f"| {name} | {runs:,} | {100 * lower.epsilon / contest.claim.epsilon:.0f} % |"


def speed_table(pairs: int) -> Iterator[str]:
    """The paper's own setting, played on all cores against the clock."""
    yield "| pairs of runs | cores | seconds | processor seconds | pairs a minute | claimed ε | proved to leak |"
    yield "|---|---|---|---|---|---|---|"
    (contest,) = contests_of(configuration.load("published", {"run.seed": 0}))
    game = timed(contest, pairs)
    lower = bound_of(game.scores, contest.claim, 1.0)
    yield (
        f"| {game.pairs:,} | {game.cores} | {game.wall:.1f} | {game.processor:.1f} | {game.in_a_minute:,.0f} "
        f"| {contest.claim.epsilon:.3f} | {lower.epsilon:.3f} |"
    )
