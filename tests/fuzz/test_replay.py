"""The committed corpus of the fuzzer, and a short search around it: any bytes are read, or refused in a sentence."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from tests.fuzz.targets import CORPUS, TARGETS, refused

FILES = {name: sorted((CORPUS / name).iterdir()) for name in TARGETS}
EDITS = st.lists(st.tuples(st.integers(0, 1 << 12), st.binary(max_size=4)), max_size=6)


def edited(content: bytes, edits: list[tuple[int, bytes]]) -> bytes:
    """Some bytes replaced; of nothing, cut off there."""
    for place, new in edits:
        at = place % (len(content) + 1)
        content = content[:at] + new + content[at + len(new) :] if new else content[:at]
    return content


@pytest.mark.parametrize("path", [path for paths in FILES.values() for path in paths], ids=lambda path: path.name)
def test_what_was_found_once_is_read_or_refused_in_a_sentence(path: Path) -> None:
    sentence = refused(path.parent.name, path.read_bytes())
    assert sentence is None or sentence.strip()


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bytes_near_the_corpus_are_read_or_refused_in_a_sentence(name: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(FILES[name]))
    sentence = refused(name, edited(path.read_bytes(), data.draw(EDITS)))
    target(float(len(sentence or "")), label="length of the sentence")
    assert sentence is None or sentence.strip()


def test_every_reader_of_foreign_bytes_has_a_corpus() -> None:
    assert all(FILES.values())
