"""The commands account, calibrate and ledger, against the numbers of an independent prototype."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fedspd.cli.commands.privacy import register
from fedspd.cli.events import SamplingKind, event_of
from fedspd.errors import InputError
from fedspd.privacy.accounting import FixedSize, Gaussian, SharedGaussian, spent
from fedspd.privacy.ledger import Budget, Ledger, verify
from fedspd.report.numbers import rounded
from tests.support.ledger.fresh import new_ledger

APP = typer.Typer(pretty_exceptions_enable=False)
register(APP)
WOR = ["--sampling", "without-replacement", "--records", "325", "--drawn", "50", "--delta", "1e-4"]


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(APP, arguments, env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def values(*arguments: str) -> dict[str, Any]:
    return json.loads(printed(*arguments, "--json"))


def account(multiplier: float, participations: int, *more: str) -> dict[str, Any]:
    return values(
        "account", *WOR, "--noise-multiplier", str(multiplier), "--participations", str(participations), *more
    )


@pytest.mark.parametrize(
    ("multiplier", "participations", "upper", "realized"),
    [(5.03, 20, 0.4308, 0.4209), (2.04, 20, 1.4092, 1.3527), (41.75, 20, 0.0355, 0.0353)],
)
def test_the_tight_accountant_is_the_default_and_prints_the_table_of_the_theory(
    multiplier: float, participations: int, upper: float, realized: float
) -> None:
    found = account(multiplier, participations)
    assert upper <= found["epsilon"] <= 1.005 * upper
    assert realized <= found["lower_bound"] <= found["epsilon"]
    assert (found["accountant"], found["relation"], found["guarantee"]) == ("pld", "replace-one", "proved")
    assert account(multiplier, participations, "--accountant", "pld") == found


def test_the_other_accountants_are_named_and_the_published_one_claims_no_proof() -> None:
    renyi = account(5.03, 20, "--accountant", "rdp")
    assert renyi["epsilon"] == pytest.approx(0.998, abs=1e-3)
    assert renyi["accountant"] == "rdp"
    published = account(
        9.877, 20, "--accountant", "published"
    )  # an independent prototype: multiplier 9.88 for epsilon 1
    assert published["epsilon"] == pytest.approx(1.0, rel=1e-3)
    assert published["guarantee"] == "as published"
    assert published["lower_bound"] is None
    whole = values(
        "account", "--sampling", "whole-shard", "--noise-multiplier", "43.437", "--participations", "20",
        "--delta", "1e-4", "--accountant", "published",
    )  # fmt: skip
    assert whole["epsilon"] == pytest.approx(1.36, abs=2e-3)  # the paper's DP-ADMM at epsilon 0.1 a round


def test_the_random_step_of_a_record_counts_with_several_local_steps() -> None:
    found = account(5.03, 20, "--local-steps", "5", "--contraction", "0.95")
    assert found["epsilon"] == pytest.approx(0.283, abs=5e-4)
    assert found["lower_bound"] is None


@pytest.mark.parametrize(
    ("arguments", "multiplier"),
    [
        ([*WOR, "--participations", "20", "--epsilon", "1"], 2.6064),
        ([*WOR, "--participations", "20", "--epsilon", "3"], 1.2619),
        ([*WOR, "--participations", "20", "--epsilon", "1", "--accountant", "published"], 9.877),
        (["--sampling", "whole-shard", "--delta", "1e-4", "--participations", "1", "--epsilon", "1"], 3.1857),
        (["--sampling", "whole-shard", "--delta", "1e-4", "--participations", "1", "--epsilon", "0.1"], 24.508),
        (["--sampling", "whole-shard", "--delta", "1e-4", "--participations", "1", "--epsilon", "3"], 1.2232),
        (["--sampling", "poisson", *WOR[2:], "--participations", "20", "--epsilon", "1"], 2.53),
        (["--sampling", "poisson", "--rate", "0.15384615", *WOR[6:], "--participations", "20", "--epsilon", "1"], 2.53),
    ],
)
def test_calibrate_prints_the_multipliers_of_the_theory_and_stays_within_the_budget(
    arguments: list[str], multiplier: float
) -> None:
    found = values("calibrate", *arguments)
    assert found["noise_multiplier"] == pytest.approx(multiplier, rel=2e-3)
    assert found["epsilon"] <= float(arguments[arguments.index("--epsilon") + 1])
    assert found["relation"] == ("zero-out" if "poisson" in arguments else "replace-one")


@pytest.mark.parametrize("command", ["account", "calibrate"])
def test_the_help_says_for_which_method_a_contraction_is_valid(command: str) -> None:
    told = " ".join(re.sub(r"[^\w .,;()/+-]", " ", printed(command, "--help")).split())
    assert "valid for fedspd alone, which releases the average of its local steps" in told


def test_people_read_epsilon_rounded_up_and_lower_bounds_rounded_down() -> None:
    text = printed("account", *WOR, "--noise-multiplier", "5.03", "--participations", "20")
    assert "0.4308" in text
    assert "proved" in text
    assert rounded(0.430701, up=True) == "0.43071"
    assert rounded(0.430709, up=False) == "0.43070"
    assert rounded(12.0, up=True) == "12.000"
    assert rounded(float("inf"), up=True) == "inf"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--sampling", "without-replacement", "--records", "325"], "expected --records and --drawn"),
        (["--sampling", "poisson"], "expected --records and --drawn"),
        (["--sampling", "without-replacement", "--records", "5", "--drawn", "50"], "drawn must be at most records"),
        (["--sampling", "whole-shard", "--rate", "0.1"], "expected no --rate with --sampling whole-shard"),
        (["--sampling", "poisson", *WOR[2:6], "--local-steps", "7"], "--drawn must be a multiple"),
        (["--sampling", "poisson", "--rate", "0.1", "--accountant", "published"], "the paper has no other sampling"),
        (
            ["--sampling", "without-replacement", "--records", "9", "--drawn", "9", "--accountant", "published"],
            "no other sampling",
        ),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], sentence: str) -> None:
    common = ["--noise-multiplier", "5", "--participations", "20", "--delta", "1e-4"]
    error = CliRunner().invoke(APP, ["account", *common, *arguments]).exception
    assert isinstance(error, InputError)  # the program prints it and exits with 2
    assert sentence in str(error)


def test_unknown_choices_and_missing_options_exit_with_2() -> None:
    for arguments in (["account", "--sampling", "wr"], ["calibrate"], ["ledger", "show"]):
        assert CliRunner().invoke(APP, arguments).exit_code == 2


@pytest.fixture
def ledger_file(tmp_path: Path) -> Path:
    event = FixedSize(2.607, 325, 50)
    with new_ledger(tmp_path / "ledger.db") as ledger:
        ledger.enter(dict.fromkeys(("ann", "bob"), Budget(1.0, 1e-4)), {"ann": {event: 20}})
        for number in range(3):
            ledger.charge("first", number, "uploads", {"ann": event})
    return tmp_path / "ledger.db"


def test_ledger_show_says_what_is_spent_and_how_many_more_rounds_fit(ledger_file: Path) -> None:
    found = values("ledger", "show", str(ledger_file))
    ann, bob = found["clients"]
    assert found["rows"] == 5
    assert ann["client"] == "ann"
    assert ann["charged"][0]["run"] == "first"
    assert ann["charged"][0]["count"] == 3
    assert ann["room"][0]["count"] == 17
    assert 0 < ann["epsilon"] < 1
    assert (bob["epsilon"], bob["charged"], bob["room"]) == (0.0, [], [])
    text = printed("ledger", "show", str(ledger_file))
    assert "17 x fixed-size" in text
    assert "plan" in text


def test_ledger_show_answers_how_many_rounds_of_a_given_kind_fit(ledger_file: Path) -> None:
    found = values("ledger", "show", str(ledger_file), "--sampling", "whole-shard", "--noise-multiplier", "40")
    rooms = [client["room"][0]["count"] for client in found["clients"]]
    with Ledger(ledger_file) as ledger:
        assert rooms == [ledger.room(client, Gaussian(40.0)) for client in ("ann", "bob")]
    assert rooms[1] > 20
    with pytest.raises(InputError, match="together"):
        printed("ledger", "show", str(ledger_file), "--noise-multiplier", "40")


def test_ledger_show_is_short_for_many_clients_and_long_when_asked(tmp_path: Path) -> None:
    event, clients = FixedSize(2.607, 325, 50), [f"client-{number}" for number in range(100)]
    with new_ledger(tmp_path / "ledger.db") as ledger:
        ledger.enter(dict.fromkeys(clients, Budget(1.0, 1e-4)))
        ledger.charge("first", 1, "uploads", dict.fromkeys(clients[:30], event))
    text = printed("ledger", "show", str(tmp_path / "ledger.db"))
    assert len(text.splitlines()) < 30
    assert "client-29" in text or "client-0" in text, "who spent something comes first"
    assert "client-99" not in text
    assert "And 80 clients that spent no more; --long lists all." in text
    long = printed("ledger", "show", str(tmp_path / "ledger.db"), "--long")
    assert all(client in long for client in clients)


@pytest.mark.parametrize("clients", [2, 9])
def test_ledger_show_has_both_numbers_their_caps_and_what_the_first_rests_on(clients: int, tmp_path: Path) -> None:
    event, names = SharedGaussian(40.0, 10.0), [f"client-{number}" for number in range(clients)]
    with new_ledger(tmp_path / "ledger.db") as ledger:
        ledger.enter(dict.fromkeys(names, Budget(1.0, 1e-5, epsilon_alone=7.5)))
        ledger.charge("first", 1, "uploads", dict.fromkeys(names, event))
    text = printed("ledger", "show", str(tmp_path / "ledger.db"))
    assert text.count("alone 7.5") == clients, "the cap, in a short table and in a long one"
    assert text.count(f"alone {rounded(spent({Gaussian(10.0): 1}, 1e-5).epsilon, up=True)}") == clients
    assert "both hold if no more members of a cohort collude than their run counted on" in text


def test_ledger_show_says_which_part_of_delta_a_plan_has_reserved(ledger_file: Path, tmp_path: Path) -> None:
    ann, bob = values("ledger", "show", str(ledger_file))["clients"]
    assert 0 < ann["reserved_delta"] <= 1e-4
    assert bob["reserved_delta"] == 0
    text = printed("ledger", "show", str(ledger_file))
    assert "Reserved: the part of delta that is kept for the plan" in text
    assert text.count("reserved") == 1, "beside the budget of ann"
    with new_ledger(tmp_path / "no-plan.db") as ledger:
        ledger.enter({"ann": Budget(1.0, 1e-4)})
    assert "Reserved" not in printed("ledger", "show", str(tmp_path / "no-plan.db"))


def test_ledger_create_makes_an_empty_ledger_once_and_says_that_it_must_be_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "[bold]ledger.db")
    assert printed("ledger", "create", path) == f"Created {path}. This is done once: keep the file and back it up.\n"
    assert verify(path).rows == 0
    with pytest.raises(InputError, match="a ledger is created once"):
        printed("ledger", "create", path)
    told = printed("ledger", "create", "--help")
    assert "fedspd ledger create ledger.db" in told
    assert "keep the file and back it up" in told


def test_a_missing_ledger_is_refused_by_show_and_verify(tmp_path: Path) -> None:
    for command in ("show", "verify"):
        with pytest.raises(InputError, match=r"got no file; restore it, .*'fedspd ledger create .*if there never was"):
            printed("ledger", command, str(tmp_path / "lost.db"))
    assert not list(tmp_path.iterdir())


def test_ledger_verify_prints_rows_and_head_and_refuses_other_files(ledger_file: Path, tmp_path: Path) -> None:
    head = verify(ledger_file).head
    assert f"Intact: 5 rows, 2 clients, 3 charges.\nHead: {head}\n" == printed("ledger", "verify", str(ledger_file))
    assert values("ledger", "verify", str(ledger_file), "--head", head)["head"] == head
    with pytest.raises(InputError, match="older than the note"):
        printed("ledger", "verify", str(ledger_file), "--head", "0" * 64)
    (tmp_path / "text").write_text("no ledger")
    with pytest.raises(InputError, match="expected an intact ledger"):
        printed("ledger", "verify", str(tmp_path / "text"))


SLIPS: dict[str, tuple[tuple[str, ...], str]] = {
    "a rate that contradicts what is drawn": (
        ("--sampling", "poisson", "--records", "1000", "--drawn", "10", "--rate", "0.5"),
        "expected --rate to be --drawn / --records = 0.01, got 0.5",
    ),
    "records where all are used": (("--sampling", "whole-shard", "--records", "1000"), "expected no --records with"),
    "drawn where all are used": (("--sampling", "whole-shard", "--drawn", "10"), "expected no --drawn with"),
    "a contraction where all are used": (
        ("--sampling", "whole-shard", "--contraction", "0.5"),
        "expected no --contraction",
    ),
    "a contraction of one step": (
        ("--sampling", "without-replacement", "--records", "1000", "--drawn", "10", "--contraction", "0.5"),
        "expected no --contraction with one local step, got 0.5",
    ),
}


@pytest.mark.parametrize("what", SLIPS)
def test_an_option_that_would_have_no_effect_or_contradicts_another_is_refused(
    what: str,
) -> None:
    options, why = SLIPS[what]
    with pytest.raises(InputError) as caught:
        event_of(**_given(options))
    assert why in str(caught.value)


def _given(options: tuple[str, ...]) -> dict[str, Any]:
    """Options as the command would hand them on."""
    values: dict[str, Any] = {
        "records": None, "drawn": None, "rate": None, "local_steps": 1, "contraction": 0.0, "max_batch": None,
        "noise_multiplier": 2.0,
    }  # fmt: skip
    for flag, text in zip(options[::2], options[1::2], strict=True):
        name = flag.removeprefix("--").replace("-", "_")
        kinds = {"sampling": SamplingKind, "records": int, "drawn": int}
        values[name] = kinds.get(name, float)(text)
    return values
