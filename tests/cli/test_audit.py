"""`fedspd audit` says what attackers prove beside what is claimed, and keeps it in the run's folder."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import fedspd
from fedspd.errors import InputError
from fedspd.report import folders_page, save_run
from fedspd.report.of_runs.audited import audit_sentences
from fedspd.results.audit import Attacked, AuditRecord, Moved, Replayed, read_audit
from fedspd.results.work import WORK_FILE
from tests.support.command import Finished, environment, run_all

SMALL = {"partition.clients": 10, "run.participants": 10, "run.rounds": 2, "data.name": "breast-cancer"}
SET = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
FEW = ("--runs", "2000")
CASES = {
    "proved": ("audit", *SET, *FEW, "--json"),
    "in words": ("audit", *SET, *FEW),
    "whole clients": (
        "audit", *SET, *FEW, "--json", "--set=algorithm.name=dp-fedavg", "--set=privacy.unit=client",
        "--set=privacy.trust=secure-sums", "--set=privacy.epsilon=8",
    ),
    "too few": ("audit", "--runs", "3"),
    "no claim": ("audit", "published", "--set", "algorithm.name=fedpd", "--set", "algorithm.inverse_step=9"),
    "no run": ("audit", "."),
    "help": ("audit", "--help"),
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    return run_all(tmp_path_factory.mktemp("audit"), CASES)


def test_a_proved_statement_survives_and_the_audit_has_teeth(finished: dict[str, Finished]) -> None:
    done = finished["proved"]
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["claimed_epsilon"] == pytest.approx(1.0, rel=1e-3)
    assert 0 < found["lower_bound"] <= found["claimed_epsilon"]
    assert found["replay"]["survived"]
    assert found["replay"]["worst_ratio"] == pytest.approx(1.0)
    ratios = found["replay"]["ratios"]
    assert [(one["round"], one["release"]) for one in ratios] == [(round, 1) for round in range(1, 6)]
    assert max(one["ratio"] for one in ratios) == found["replay"]["worst_ratio"]
    assert not found["refuted"]
    assert {"delta", "confidence", "attack", "runs"} < set(found)


def test_whole_clients_whose_contributions_are_clipped_are_attacked_as_members_of_a_cohort(
    finished: dict[str, Finished],
) -> None:
    done = finished["whole clients"]
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert 0.6 * 8 < found["lower_bound"] <= found["claimed_epsilon"] == pytest.approx(8.0, rel=1e-3)
    assert found["replay"]["survived"]
    assert found["replay"]["worst_ratio"] == pytest.approx(1.0)


def test_people_are_told_in_sentences(finished: dict[str, Finished]) -> None:
    assert "The best attacker proved, with 99.9 % confidence" in finished["in words"].out
    assert "Not refuted" in finished["in words"].out


@pytest.mark.parametrize(("case", "said"), [
    ("too few", "--runs must be at least 1000, got 3"), ("no claim", "got fedpd, which makes none"),
    ("no run", "a run folder holds config.toml"),
])  # fmt: skip
def test_what_cannot_be_audited_is_refused(finished: dict[str, Finished], case: str, said: str) -> None:
    assert finished[case].code == 2
    assert said in " ".join(finished[case].err.split())


def record(lower: float) -> AuditRecord:
    one = Attacked("a server", 1.0, lower, 0.4, lower, 5000)
    return AuditRecord(
        1.0,
        1e-5,
        "proved",
        lower,
        0.999,
        "a server",
        5000,
        lower > 1,
        (one,),
        Replayed(9, 1.0, False, 1, True, (Moved(1, 1, 0.9), Moved(2, 1, 1.0))),
        True,
    )


def test_an_audit_comes_back_from_its_file_equal(tmp_path: Path) -> None:
    assert read_audit(tmp_path) is None
    record(0.8).write(tmp_path)
    assert read_audit(tmp_path) == record(0.8)


@pytest.mark.parametrize(
    "spoil", [lambda text: text[:-9], lambda text: text.replace('"delta"', '"beta"'), lambda _: "[]"]
)
def test_a_spoiled_file_is_refused(tmp_path: Path, spoil: Callable[[str], str]) -> None:
    record(0.8).write(tmp_path)
    (tmp_path / "audit.json").write_text(spoil((tmp_path / "audit.json").read_text()))
    with pytest.raises(InputError, match="audit the run again"):
        read_audit(tmp_path)


def test_a_refuted_statement_is_called_that_and_hidden_state_is_named() -> None:
    found = replace(record(1.2), replay=Replayed(9, None, True, 2, False, ()))
    assert any(sentence.startswith("REFUTED") for sentence in audit_sentences(found))
    assert any("carries no noise" in sentence and "did not use" in sentence for sentence in audit_sentences(found))


def test_the_worst_round_is_named_and_the_release_where_there_are_several() -> None:
    assert "1.000 times as far as declared (round 2), and" in audit_sentences(record(0.8))[1]
    ratios = Moved(1, 1, 0.2), Moved(1, 2, 0.7)
    found = replace(record(0.8), replay=replace(record(0.8).replay, worst_ratio=0.7, ratios=ratios))
    assert "0.700 times as far as declared (round 1, release 2), and" in audit_sentences(found)[1]


def test_the_page_of_a_run_shows_its_audit(tmp_path: Path) -> None:
    run = fedspd.run("proved", {**SMALL, "run.seed": 0})
    save_run(tmp_path, run.record(), run.model())
    assert all(section.title != "Audit" for section in folders_page([tmp_path]).sections)
    record(0.8).write(tmp_path)
    shown = next(section for section in folders_page([tmp_path]).sections if section.title == "Audit")
    assert shown.grids[0].rows == (("a server", 1.0, 0.8, 5000),)


LONG = ("audit", *SET, "--runs", "60000", "--seed", "3", "--json")
WRONG = {
    **SMALL, "partition.clients": 40, "run.participants": 40, "run.rounds": 20, "algorithm.batch_size": 1,
    "algorithm.local_steps": 1, "algorithm.penalty": 0.001, "privacy.epsilon": 0.4,
}  # fmt: skip
REFUTED = ("audit", "published", *(f"--set={key}={value}" for key, value in WRONG.items()), "--runs=20000", "--json")


def called(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fedspd", *arguments], cwd=folder, env=environment(folder / "cache"),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def cut_off(folder: Path, arguments: tuple[str, ...]) -> None:
    """Kill an audit as soon as it has kept something."""
    command = [sys.executable, "-m", "fedspd", *arguments]
    with subprocess.Popen(command, cwd=folder, env=environment(folder / "cache"), stdout=subprocess.PIPE) as process:
        deadline = time.monotonic() + 200
        while not list(folder.glob("cut/scores-*")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        assert process.poll() is None, "it was over too soon"
        process.send_signal(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.lengthy
def test_an_audit_that_was_killed_goes_on_to_the_same_bits_and_the_same_exit_code(tmp_path: Path) -> None:
    whole = called(tmp_path, *REFUTED, "--out", "whole")
    assert whole.returncode == 1, whole.stderr
    cut_off(tmp_path, (*REFUTED, "--out", "cut"))
    assert (tmp_path / "cut" / WORK_FILE).exists()
    assert not (tmp_path / "cut" / "audit.json").exists()
    (tmp_path / "cut" / ".scores-9.123").write_bytes(b"half")
    done = called(tmp_path / "..", "resume", str(tmp_path / "cut"))
    assert (done.returncode, done.stdout, done.stderr) == (1, whole.stdout, "")
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("whole", "cut")]
    assert files[0] == files[1]
    assert set(files[0]) == {"audit.json", "audit.png"}


def test_an_audit_goes_on_from_the_scores_that_were_kept_and_from_no_others(tmp_path: Path) -> None:
    """Scores on the disk are believed, so those of other settings must be refused."""
    ours, settings = ("audit", "my.toml", *LONG[1:]), tmp_path / "my.toml"
    settings.write_text("[data]\nrow_norm = 1.0\n[privacy]\nepsilon = 1.0\n")
    cut_off(tmp_path, (*ours, "--out", "cut"))
    settings.write_text(settings.read_text().replace("epsilon = 1", "epsilon = 2"))
    refused = called(tmp_path, "resume", "cut")
    assert refused.returncode == 2
    assert "that the audit in" in " ".join(refused.stderr.split())
    assert list(tmp_path.glob("cut/scores-*")), "and nothing is lost"
    again = called(tmp_path, *ours, "--out", "cut")
    assert (again.returncode, "must be new or empty" in " ".join(again.stderr.split())) == (2, True)
