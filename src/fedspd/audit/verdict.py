"""One statement, attacked by everything at hand: what the best attacker proved, beside what is claimed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, NamedTuple

from fedspd.audit.bounds import CONFIDENCE, Claim, Lower, lower_bound
from fedspd.audit.freshness import noise_is_fresh
from fedspd.audit.game import play_game, stacks
from fedspd.audit.keeping import Kept
from fedspd.audit.replay import Found
from fedspd.audit.search import replay_all
from fedspd.audit.target import UNDECLARED, Target, worst_pair
from fedspd.results.audit import Attacked, AuditRecord, Moved, Replayed


class Contest(NamedTuple):
    """A claim, who is attacked for it, and who attacks."""

    attacker: str  # in words
    target: Target
    claim: Claim


def length(contests: Sequence[Contest], runs: int) -> int:
    """How often an audit reports progress."""
    return 1 + sum(stacks(contest.target, runs) for contest in contests)


def audit(
    contests: Sequence[Contest], runs: int, seed: int, confidence: float = CONFIDENCE,
    advance: Callable[[], Any] = lambda: None, kept: Kept | None = None,
) -> AuditRecord:  # fmt: skip
    """Replay the method of the first contest, then play every contest's game.

    Args:
        contests: the first is the statement itself; others hold under other assumptions.
        runs: of each game in each of its two worlds.
        seed: of all draws.
        confidence: that no bound of any contest exceeds a claim that holds.
        advance: called as often as `length` says.
        kept: scores of an earlier attempt at the same audit, which are not played again.

    Guarantees:
        A true statement is refuted with a chance of at most 1 - confidence, for all games together.
    """
    target = contests[0].target
    each = 1 - (1 - confidence) / len(contests)
    unit = "record" if target.rows == 1 else "person"
    found, pairs = replay_all(_on_star(target.algorithm), target.row_norm or UNDECLARED, seed, unit)
    fresh = noise_is_fresh(target, seed)
    advance()
    played = [
        attacked(contest.attacker, contest.claim, lower_bound(*scores, contest.claim, each))
        for number, contest in enumerate(contests)
        for scores in [play_game(contest.target, worst_pair(contest.target), runs, seed, advance, kept, str(number))]
    ]
    best = max(played, key=lambda attacked: attacked.lower_bound / attacked.claimed_epsilon)
    proved = target.algorithm.guarantee == "proved"
    refuted = (
        any(one.lower_bound > one.claimed_epsilon for one in played) or (proved and not found.survived) or not fresh
    )
    main = played[0]
    return AuditRecord(
        claimed_epsilon=main.claimed_epsilon,
        delta=contests[0].claim.delta,
        guarantee=target.algorithm.guarantee,
        lower_bound=main.lower_bound,
        confidence=confidence,
        attack=main.attack if best.lower_bound <= best.claimed_epsilon else best.attack,
        runs=runs,
        refuted=refuted,
        attacks=tuple(played),
        replay=_replayed(found, pairs),
        noise_is_fresh=fresh,
    )


def attacked(attacker: str, claim: Claim, lower: Lower) -> Attacked:
    """A bound as it is written down."""
    return Attacked(attacker, claim.epsilon, lower.epsilon, lower.direct, lower.family, lower.runs)


def _replayed(found: Found, pairs: int) -> Replayed:
    ratios = tuple(
        Moved(turn, release, _finite(ratio))
        for turn, of_round in enumerate(found.ratios, start=1)
        for release, ratio in enumerate(of_round, start=1)
    )
    return Replayed(pairs, _finite(found.worst_ratio), found.state_differs, found.most_moved, found.survived, ratios)


def _finite(ratio: float) -> float | None:
    return ratio if isfinite(ratio) else None


def _on_star(algorithm: Any) -> Any:
    """A replay has no neighbors in a graph: the same method with a server between."""
    network = getattr(algorithm, "network", None)
    if network is None or network.topology is None:
        return algorithm
    return replace(algorithm, network=replace(network, topology=None))
