"""Parts of a round run on the cores that a process may use."""

import os
import threading

import pytest

from fedspd.engine.parallel import cores, usable_cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to a core")
def test_a_process_bound_to_one_core_plays_in_its_own_thread() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores() == 1
        with cores() as each:
            assert {*each(lambda _: threading.get_ident(), range(8))} == {threading.get_ident()}
    finally:
        os.sched_setaffinity(0, before)
    assert usable_cores() == len(before)
