"""A model measured under masks: the sum of the counts is that of a plain run; sites that share noise add one noise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.assemble.records.held_out import seed_key
from fedspd.data import Recipe, finish, read_table
from fedspd.deploy.protocol.messages import COUNTS, Count, CountMasked, Exchange, Refused
from fedspd.deploy.protocol.sums import counts_part
from fedspd.deploy.site.computing.tables import cut
from fedspd.engine import stream
from fedspd.errors import InputError
from fedspd.evaluate.counting import counting_under, places_by
from fedspd.privacy.ledger import Ledger
from fedspd.privacy.ledger.key import EVALUATION
from fedspd.results.evaluation import Evaluation
from fedspd.scoring.model import Model
from tests.deploy.masks.test_secure import silent_at
from tests.deploy.test_evaluation import HELD, POLICY, SEED, SHARE
from tests.support.deploy.shared import sharing
from tests.support.deploy.sites import Federation, federation

SITES = 5
FIXED: dict[str, Any] = {"federation__fixed_draws": True, "run__seed": SEED, "run__rounds": 3, "privacy__epsilon": 20.0}
SECURE: dict[str, Any] = {"federation__aggregation": "secure", "federation__quorum": 4, "federation__threshold": 4}


def measured(made: Federation) -> Evaluation:
    server = made.server()
    server.run()
    assert server.evaluation is not None, made.said
    return server.evaluation


def flat(found: Evaluation) -> np.ndarray:
    return np.concatenate(found.counts)


def test_under_masks_the_sum_of_the_counts_is_that_of_a_plain_run(tmp_path: Path) -> None:
    plain = measured(federation(tmp_path / "plain", SITES, 161, protected=False, **FIXED, **HELD))
    made = federation(tmp_path / "masked", SITES, 161, protected=False, **FIXED, **SECURE, **HELD)
    masked = measured(made)
    np.testing.assert_allclose(flat(masked), flat(plain), rtol=0, atol=1e-6)
    assert (masked.records, masked.noise) == (plain.records, plain.noise)
    kinds = {message.metadata.message_type for message in made.grid.sent}
    assert "train.count_masked" in kinds
    assert "train.count" not in kinds


def bare_counts(made: Federation, places: list[int]) -> np.ndarray:
    """What the sites at these places count, without noise, by the simulator's parts."""
    terms, schema = made.terms(), made.schema
    agreed, data, run = terms.agreed(schema), terms.config.data, made.saved
    assert data.row_norm is not None
    counting, total = counting_under(schema, terms.bins, None), 0.0
    weights = np.asarray(agreed.algorithm.model(run.server))
    for place in places:
        table = read_table(made.sites[place].parent / "records.csv", schema)
        held = cut(table, "record", SHARE, seed_key(SEED)).apart
        scores = finish(held.table.features, run.mean, run.deviation, data.bias, data.row_norm) @ weights
        recipe = Recipe(schema, "unit", run.mean, run.deviation, data.bias, data.row_norm)
        model = Model(weights, recipe, agreed.algorithm.objective.loss)
        spots = places_by(model, scores, held.table, counting, None)
        total = total + np.asarray(counting.query(spots, held.weights, np.zeros(len(spots), int), 1).value)[0]
    return np.asarray(total)


@pytest.mark.parametrize("absent", [None, 1])
def test_sites_that_share_noise_count_with_one_noise_among_them(absent: int | None, tmp_path: Path) -> None:
    made = sharing(tmp_path, SITES, 161, protected=False, **(FIXED | HELD))
    if absent is not None:
        made.grid.handlers[made.node(absent)] = silent_at("train.count_masked")
    found, terms = measured(made), made.terms()
    there = [place for place in range(SITES) if place != absent]
    part = counts_part(terms, terms.agreed(made.schema), made.schema)
    noise = sum(stream(SEED, "evaluation", 0, place).standard_normal((1, 20))[0] for place in there)
    expected = bare_counts(made, there) + part.noise.scale * np.asarray(noise)
    np.testing.assert_allclose(flat(found), expected, rtol=0, atol=1e-6)
    assert found.records == sum(int(terms.held_out[place]) for place in there)
    assert found.noise == pytest.approx(part.noise.scale * np.sqrt(len(there)))
    (group,) = terms.agreed(made.schema).plan.groups
    assert part.noise.scale == pytest.approx(group.evaluation.noise_multiplier * np.sqrt(2) / np.sqrt(3)), (
        "the threshold is 4, and one may tell: the noise of three is counted on"
    )


def test_sites_that_share_noise_are_charged_for_their_counts_within_both_budgets(tmp_path: Path) -> None:
    made = sharing(tmp_path, SITES, 200, site=POLICY, **HELD)
    found = measured(made)
    apart = federation(tmp_path / "apart", SITES, 200, POLICY, **HELD)
    assert found.noise < measured(apart).noise / 1.5, "one noise in place of five"
    (group,) = made.terms().agreed(made.schema).plan.groups
    for place in range(SITES):
        with Ledger(made.sites[place].parent / "ledger.db") as ledger:
            charges = list(ledger.charges())
        assert [one.mechanism for one in charges if one.mechanism == EVALUATION] == [EVALUATION]
        assert charges[-1].event == group.evaluation
    assert group.evaluation.own_multiplier < group.evaluation.noise_multiplier


def test_a_site_masks_its_counts_once(tmp_path: Path) -> None:
    made = federation(tmp_path, SITES, 200, POLICY, **SECURE, **HELD)
    measured(made)
    terms = made.saved.roster[0].terms
    answer = made.tell(0, Exchange(terms, COUNTS, "another-try"))
    assert isinstance(answer, Refused)
    assert answer.final
    assert "has released counts of its held-out records, and the run plans no second release" in answer.reason
    assert made.charges() == 4


def test_in_a_masked_run_counts_leave_under_masks_only_and_in_their_own_round(tmp_path: Path) -> None:
    made = federation(tmp_path, SITES, 200, POLICY, **SECURE, **HELD)
    terms = made.enter()
    bare = Count(terms.digest, np.zeros((6, 2)), np.zeros(5), np.ones(5))
    for request, reason in (
        (bare, "the run's aggregation is 'secure'"),
        (CountMasked(terms.digest, 1, *bare[1:], "attempt", {}, {}), "counted in a masked round -1, got round 1"),
    ):
        answer = made.tell(0, request)
        assert isinstance(answer, Refused)
        assert reason in answer.reason
    assert made.charges() == 0


def test_where_a_masked_sum_of_counts_fails_the_run_ends_without_a_measurement(tmp_path: Path) -> None:
    made = federation(tmp_path, SITES, 200, POLICY, **SECURE, **HELD)
    for place in (0, 1):
        made.grid.handlers[made.node(place)] = silent_at("train.count_masked")
    with pytest.raises(InputError, match="got 0 that measured the model"):
        made.server().run()
    server = made.server()
    run = server.run()
    assert server.evaluation is None
    assert run.summary.epsilon_spent_max is not None
    assert max(member.epsilon for member in made.saved.roster) <= run.summary.epsilon_spent_max + 1e-9
    assert [made.charges(place) for place in range(SITES)] == [4] * SITES, "charged once, and nothing was unmasked"
    assert "the model is not measured: 0 sites released counts" in made.said
