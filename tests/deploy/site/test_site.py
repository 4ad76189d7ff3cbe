"""A site's file: strict, and nothing that would leave records unprotected by a slip."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedspd.deploy.site.settings import read_site
from fedspd.errors import InputError
from fedspd.privacy.ledger import Budget
from tests.support.deploy.sites import site_values


def written(tmp_path: Path, values: dict[str, Any]) -> Path:
    path = tmp_path / "site.toml"
    path.write_text(tomli_w.dumps(values))
    return path


def test_a_site_is_read_with_paths_relative_to_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, site_values("north", {"policy.methods": ["dp-sgd", "fedspd"]}))
    monkeypatch.chdir(path.parent)
    site = read_site("site.toml")
    monkeypatch.chdir("/")
    assert (site.name, site.budget) == ("north", Budget(1.0, 1e-5, "replace-one"))
    assert site.path("data") == tmp_path.resolve() / "records.csv"
    assert site.path("ledger") == tmp_path.resolve() / "ledger.db"
    assert site.policy.methods == ("dp-sgd", "fedspd")


def test_a_site_that_says_little_allows_little(tmp_path: Path) -> None:
    values = site_values("north", {})
    del values["policy"]
    policy = read_site(written(tmp_path, values)).policy
    assert (policy.methods, policy.clip_norm, policy.row_norm) == (("fedspd",), 0.5, 1.0)
    assert (policy.min_batch, policy.most_rounds, policy.largest_weight) == (100, 100, 1000.0)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unproved method": ({"policy.methods": ["fedspd-published"]}, "policy.methods must be one of fedspd, dp-sgd"),
    "a method without privacy": ({"policy.methods": ["fedspd", "fedavg"]}, "policy.methods must be one of"),
    "methods that are no list": ({"policy.methods": "fedspd"}, "must be a list of strings"),
    "an unknown key": ({"policy.clipnorm": 1.0}, "did you mean 'clip_norm'"),
    "no epsilon at all": ({"budget.epsilon": 0}, "budget.epsilon must be above 0"),
    "an infinite epsilon": ({"budget.epsilon": float("inf")}, "budget.epsilon must be finite"),
    "a delta of 1": ({"budget.delta": 1.0}, "budget.delta must be above 0 and below 1"),
    "another unit": ({"budget.unit": "family"}, "budget.unit must be one of record, person"),
    "another relation": ({"budget.relation": "add-remove"}, "must be one of replace-one, zero-out"),
    "an infinite clip_norm": ({"policy.clip_norm": float("inf")}, "policy.clip_norm must be finite"),
    "weights without a limit": ({"policy.largest_weight": float("inf")}, "policy.largest_weight must be finite"),
    "batches of nobody": ({"policy.min_batch": 0}, "policy.min_batch must be at least 1"),
    "both a budget and none": ({"site.unprotected": True}, "leave out one of the two"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_slip_in_a_sites_file_is_refused(what: str, tmp_path: Path) -> None:
    changes, reason = WRONG[what]
    with pytest.raises(InputError) as caught:
        read_site(written(tmp_path, site_values("north", changes)))
    assert reason in str(caught.value)


@pytest.mark.parametrize("key", ["site.name", "site.data", "site.schema", "budget.epsilon", "budget.delta"])
def test_what_has_no_default_must_be_said(key: str, tmp_path: Path) -> None:
    values, (section, _, name) = site_values("north", {}), key.partition(".")
    del values[section][name]
    with pytest.raises(InputError, match=f"{key} is needed"):
        read_site(written(tmp_path, values))


def test_a_site_without_a_budget_must_say_that_it_needs_no_protection(tmp_path: Path) -> None:
    values = site_values("north", {})
    del values["budget"]
    with pytest.raises(InputError, match=r"must have a \[budget\] with epsilon and delta, got none"):
        read_site(written(tmp_path, values))
    assert read_site(written(tmp_path, site_values("north", {}, protected=False))).budget is None


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_site(tmp_path / "none.toml")
    path = tmp_path / "site.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8 text"):
        read_site(path)
    path.write_text("[site")
    with pytest.raises(InputError, match="is not valid TOML"):
        read_site(path)
