"""The code blocks of docs/accounting.md run as they stand."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "accounting.md"


def test_the_code_blocks_of_the_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})
