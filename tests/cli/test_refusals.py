"""Bad input on the command line: exit code 2, one sentence with what was expected and got, nothing written."""

from pathlib import Path

import pytest

from tests.support.command import Finished, run_all, run_script


def settings(*texts: str) -> tuple[str, ...]:
    return ("run", "published", *(part for text in texts for part in ("--set", text)))


LONG = "x" * 300
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "more participants than clients": (
        settings("run.participants=101"),
        "participants must be between 1 and the number of clients, 100, got 101; lower run.participants",
    ),
    "no participant": (settings("run.participants=0"), "run.participants must be at least 1, got 0."),
    "more draws than records": (
        settings("algorithm.local_steps=33", "privacy.budget=round"),
        "at most the records of the smallest client, 325, when sampling without replacement, got 330; lower batch_size",
    ),
    "more draws than records of one client": (
        settings("partition.kind=power-law", "partition.exponent=1", "partition.clients=200"),
        "must be at most the records of the smallest client, 28, when sampling without replacement, got 50;",
    ),
    "all records drawn under a total budget": (
        settings("algorithm.batch_size=100"),
        "needs a sampling rate below 1, got 1.54 (local_steps x batch_size = 500 of 325.61 records); lower batch_size",
    ),
    "no local step": (settings("algorithm.local_steps=0"), "algorithm.local_steps must be at least 1, got 0."),
    "half a local step": (settings("algorithm.local_steps=0.5"), "must be a whole number, got 0.5."),
    "zero epsilon": (
        settings("privacy.epsilon=0"),
        "privacy.epsilon must be at least 1e-06 and at most 10000, or inf, got 0.0.",
    ),
    "negative epsilon": (
        settings("privacy.epsilon=-1"),
        "privacy.epsilon must be at least 1e-06 and at most 10000, or inf, got -1.0.",
    ),
    "epsilon not a number": (
        settings("privacy.epsilon=nan"),
        "privacy.epsilon must be at least 1e-06 and at most 10000, or inf, got nan.",
    ),
    "delta zero": (settings("privacy.delta=0"), "privacy.delta must be above 0 and below 1, got 0.0."),
    "delta one": (settings("privacy.delta=1"), "privacy.delta must be above 0 and below 1, got 1.0."),
    "delta two": (settings("privacy.delta=2"), "privacy.delta must be above 0 and below 1, got 2.0."),
    "infinite penalty": (settings("algorithm.penalty=inf"), "must be finite and above 0, got inf."),
    "noise without a bound": (settings("problem.clip_norm=inf"), "problem.clip_norm must be finite when"),
    "Theorem 2 without a bound": (
        settings("problem.clip_norm=inf", "privacy.epsilon=inf"),
        "problem.clip_norm must be finite when algorithm.inverse_step is absent",
    ),
    "unknown key": (settings("privacy.epsilom=1"), "unknown key privacy.epsilom; did you mean 'epsilon'?"),
    "unknown section": (settings("privcy.epsilon=1"), "unknown section [privcy]; did you mean 'privacy'?"),
    "setting without a value": (settings("run.seed"), "must look like section.key=value, got 'run.seed'."),
    "setting without a section": (settings("seed=1"), "must be named section.key, got 'seed'; for example run.seed."),
    "unknown preset": (("run", "publishd"), "got 'publishd' (No such file or directory); did you mean 'published'?"),
    "missing file": (
        ("run", "missing.toml"),
        "got 'missing.toml' (No such file or directory); known are proved, published.",
    ),
    "name too long": (("run", LONG), f"expected a TOML file or a preset, got '{LONG}' (File name too long)"),
    "folder as config": (("run", "folder"), "got 'folder' (Is a directory); known are proved, published."),
    "config in another encoding": (("run", "latin.toml"), "got 'latin.toml' (not UTF-8 text)"),
    "invalid TOML": (("run", "broken.toml"), "broken.toml is not valid TOML: "),
    "number for a section": (
        ("run", "scalar.toml", "--set", "run.seed=1"),
        "[run] must be a table of keys, got 3; write [run] on its own line.",
    ),
    "folder with a run": (
        ("run", "--out", "finished"),
        "must be new or empty, got finished, which already holds a run; name another with --out.",
    ),
    "folder with files": (("run", "--out", "folder"), "got folder, which already holds files; name another"),
    "file for a folder": (("run", "--out", "broken.toml"), "got broken.toml, which is a file; name another"),
    "folder inside a file": (("run", "--out", "broken.toml/x"), "is no folder that can be written to; name another"),
    "folder name too long": (("run", "--out", LONG), f"got {LONG}, but: File name too long; name another"),
    "missing ledger": (
        ("run", "--ledger", "lost.sqlite"),
        "expected a ledger at lost.sqlite, got no file; restore it, for a new one forgets what is spent, or run "
        "'fedspd ledger create lost.sqlite' if there never was one.",
    ),
    "ledger for a method that takes none": (
        ("run", "published", "--ledger", "lost.sqlite"),
        "a ledger takes proved events only, got the method 'fedspd-published'",
    ),
    "ledger where a file is": (
        ("ledger", "create", "broken.toml"),
        "expected no ledger at broken.toml before it is created, got a file; a ledger is created once",
    ),
    "clients without records": (
        settings("partition.kind=dirichlet", "partition.alpha=0.01"),
        "every client must hold at least one record, got none on ",
    ),
    "more clients than records": (
        settings("partition.clients=32562"),
        "clients must be from 1 to the 32561 records, got 32562; every client needs a record.",
    ),
    "option of another partition": (
        settings("partition.alpha=1"),
        "partition 'iid' takes the options none, got alpha; remove alpha.",
    ),
    "missing option of a partition": (
        settings("partition.kind=dirichlet"),
        "partition 'dirichlet' takes the options alpha, at_least, got none; add alpha.",
    ),
    "unknown column": (
        settings("partition.kind=by-column", "partition.column=color"),
        "must be a categorical column (education, marital-status, native-country, occupation, race, relationship, ",
    ),
    "ratio above one": (
        settings("problem.regularizer=elastic-net", "problem.ratio=2"),
        "problem.ratio must be at least 0 and at most 1, got 2.0.",
    ),
    "loss of another kind": (
        settings("problem.loss=huber"),
        "problem.loss = huber predicts a number, got 2 classes; use softmax or least-squares or squared-hinge.",
    ),
}
MISSPELT: dict[str, tuple[str, ...]] = {
    "unknown option": ("run", "--nosuch"),
    "option without value": ("run", "--out"),
    "extra argument": ("run", "published", "extra"),
    "unknown command": ("nosuch",),
}


def furnish(folder: Path) -> None:
    """What a folder may hold that is in the way."""
    (folder / "folder").mkdir(parents=True)
    (folder / "folder" / "note.txt").touch()
    (folder / "finished").mkdir()
    (folder / "finished" / "summary.json").write_text("{}")
    (folder / "broken.toml").write_text("[run\n")
    (folder / "scalar.toml").write_text("run = 3\n")
    (folder / "latin.toml").write_bytes('[partition]\ncolumn = "größe"\n'.encode("latin-1"))


def contents(folder: Path) -> dict[Path, bytes | None]:
    return {p.relative_to(folder): None if p.is_dir() else p.read_bytes() for p in folder.rglob("*")}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    root = tmp_path_factory.mktemp("refused")
    cases = {name: arguments for name, (arguments, _) in REFUSED.items()} | MISSPELT
    for name in cases:
        furnish(root / name.replace(" ", "-"))
    return run_all(root, cases)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, bytes | None]:
    folder = tmp_path_factory.mktemp("untouched") / "folder"
    furnish(folder)
    return contents(folder)


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_sentence_and_exit_code_2_and_writes_nothing(
    name: str, done: dict[str, Finished], untouched: dict[Path, bytes | None]
) -> None:
    finished, (_, message) = done[name], REFUSED[name]
    assert message in finished.err
    assert finished.code == 2
    assert finished.out == ""
    assert finished.err.startswith("fedspd: ")
    assert finished.err.count("\n") == 1
    assert finished.err[-2] in ".?"
    assert contents(finished.folder) == untouched


def test_bad_input_leaves_no_trace_in_the_cache_either(done: dict[str, Finished]) -> None:
    assert not any((done[name].folder.parent / "cache").exists() for name in REFUSED)


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_command_exits_with_2_and_writes_nothing(
    name: str, done: dict[str, Finished], untouched: dict[Path, bytes | None]
) -> None:
    finished = done[name]
    assert (finished.code, finished.out) == (2, "")
    assert "Error" in finished.err
    assert "Traceback" not in finished.err
    assert contents(finished.folder) == untouched


def test_the_installed_script_passes_the_sentence_and_the_exit_code_on(tmp_path: Path) -> None:
    finished = run_script(tmp_path, *REFUSED["unknown preset"][0])
    assert (finished.code, finished.out, finished.err.count("\n")) == (2, "", 1)
    assert REFUSED["unknown preset"][1] in finished.err
    assert not list(tmp_path.iterdir())
