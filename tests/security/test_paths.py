"""A folder that somebody sent shows nothing but its own files, and nothing is written outside of it."""

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from fedspd.errors import InputError
from fedspd.report import folders_page
from fedspd.results import read_run
from fedspd.results.run_folder import RUN_FILES
from fedspd.scoring.model import load_model
from tests.security.commands import BUDGET, OWN, command, write_own_table

SECRET = "a key that only its owner should see"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder, a table, and a file beside them that is nobody's business."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(home)
        write_own_table(home)
        command("run", *OWN, *BUDGET, "--out", "sent")
    (home / "secret").write_text(SECRET)
    return home


@pytest.fixture
def sent(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the run folder, to do harm with, in a home of its own."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "sent"


def linked(sent: Path, name: str, target: str) -> None:
    (sent / name).unlink(missing_ok=True)
    (sent / name).symlink_to(target)


@pytest.mark.parametrize("target", ["../secret", "/etc/hostname", "../nothing"])
@pytest.mark.parametrize("name", RUN_FILES)
def test_a_report_shows_no_file_that_a_link_leads_to_out_of_a_run_folder(sent: Path, name: str, target: str) -> None:
    linked(sent, name, target)
    with pytest.raises(InputError, match=f"must lie in it, got {name}, a link that leads out of it|without {name}"):
        folders_page([sent])
    with pytest.raises(InputError, match="a link that leads out of it"):
        read_run(sent)


def test_a_link_to_another_file_of_the_folder_is_followed_and_so_is_one_to_the_folder(sent: Path) -> None:
    (sent / "config.toml").rename(sent / "kept.toml")
    linked(sent, "config.toml", "kept.toml")
    (sent.parent / "link").symlink_to("sent")
    assert read_run(sent.parent / "link").configuration == (sent / "kept.toml").read_text()


def test_a_model_is_no_link_out_of_its_folder_and_no_pipe(sent: Path) -> None:
    shutil.copy(sent / "model.npz", sent.parent / "another.npz")
    linked(sent, "model.npz", "../another.npz")
    with pytest.raises(InputError, match=r"got model\.npz, a link that leads out of it"):
        load_model(sent)
    (sent / "model.npz").unlink()
    os.mkfifo(sent / "model.npz")
    with pytest.raises(InputError, match=r"got model\.npz, no plain file"):
        load_model(sent)


def test_a_study_is_no_link_out_of_its_folder(sent: Path) -> None:
    linked(sent, "page.json", "../secret")
    with pytest.raises(InputError, match=r"got page\.json, a link that leads out of it"):
        folders_page([sent])


@pytest.mark.parametrize("name", ["rows.jsonl", "sweep.toml"])
def test_a_sweep_adds_no_rows_to_a_file_outside_of_its_folder(sent: Path, name: str) -> None:
    sweep = (
        "sweep",
        *OWN,
        "--set",
        "privacy.epsilon=5",
        "--set",
        "privacy.delta=1e-3",
        "--seeds",
        "1",
        "--out",
        "swept",
    )
    command(*sweep, "--grid", "algorithm.inverse_step=1.0")
    outside = sent.parent / "outside"
    (sent.parent / "swept" / name).rename(outside)
    linked(sent.parent / "swept", name, "../outside")
    before = outside.read_bytes()
    with pytest.raises(InputError, match="a link that leads out of it"):
        command(*sweep, "--grid", "algorithm.inverse_step=1.0,2.0")
    assert outside.read_bytes() == before


@pytest.mark.parametrize("member", ["../evil.npy", "/tmp/evil-of-fedspd.npy", "a/../../../evil.npy"])
def test_members_of_a_model_file_are_read_and_never_unpacked(sent: Path, member: str) -> None:
    with zipfile.ZipFile(sent / "model.npz", "a") as archive:
        archive.writestr(member, archive.read("weights.npy"))
    before = sorted(sent.parent.rglob("*"))
    assert load_model(sent).weights.size
    assert sorted(sent.parent.rglob("*")) == before
    assert not Path(member).exists()


def test_what_a_sent_configuration_names_is_shown_and_never_opened(sent: Path) -> None:
    os.mkfifo(sent.parent / "pipe")  # whoever opened it would wait for ever
    text = (sent / "config.toml").read_text()
    assert 'file = "t.csv"' in text
    (sent / "config.toml").write_text(text.replace('"t.csv"', '"../pipe"').replace('"schema.toml"', '"../pipe"'))
    command("report", "sent", "--out", "page.html")
    command("predict", "sent", "t.csv", "--out", "predictions.csv")
    command("export", "sent", "--to", "csv", "--out", "model.csv")
    assert "../pipe" in Path("page.html").read_text()
