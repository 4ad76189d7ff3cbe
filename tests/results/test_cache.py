"""What was kept is found again bit for bit, and what is damaged is as good as not there."""

from pathlib import Path

import numpy as np
import pytest

from fedspd.results import Cache, cache_folder, digest

KEPT = {"numbers": np.arange(6.0).reshape(2, 3) / 7, "text": np.array("a summary")}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Cache("kind")


def test_the_folder_is_the_one_that_the_environment_names_or_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("kind") == tmp_path / "fedspd" / "kind"
    for unset in (lambda: monkeypatch.setenv("XDG_CACHE_HOME", ""), lambda: monkeypatch.delenv("XDG_CACHE_HOME")):
        unset()
        assert cache_folder("kind") == Path.home() / ".cache" / "fedspd" / "kind"


def test_what_was_kept_is_found_again_bit_for_bit_and_under_its_key_alone(cache: Cache) -> None:
    assert cache.read("key") is None
    cache.write("key", KEPT)
    found = cache.read("key")
    assert found is not None
    assert found.keys() == KEPT.keys()
    for name, values in KEPT.items():
        np.testing.assert_array_equal(found[name], values, strict=True)
    assert cache.read("another key") is None
    assert Cache("another kind").read("key") is None
    assert [path.name for path in cache_folder("kind").iterdir()] == ["key.npz"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.99])
def test_a_file_that_is_cut_short_is_as_good_as_none(cache: Cache, share: float) -> None:
    cache.write("key", KEPT)
    path = cache_folder("kind") / "key.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert cache.read("key") is None


def test_a_file_of_another_format_is_as_good_as_none(cache: Cache) -> None:
    cache.write("key", KEPT)
    with (cache_folder("kind") / "key.npz").open("wb") as file:
        np.save(file, np.arange(3))
    assert cache.read("key") is None


def test_what_cannot_be_kept_is_not_kept_and_nothing_is_said_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nobody")
    cache = Cache("kind")
    cache.write("key", KEPT)
    assert cache.read("key") is None


def test_a_digest_is_that_of_all_parts_in_their_order() -> None:
    assert digest(b"a", b"b") == digest(memoryview(b"ab"))
    assert len({digest(), digest(b"a"), digest(b"ab"), digest(b"b", b"a")}) == 4
