"""A look at all bytes of a file that should be text: is it, how many lines, and do its quotes come in pairs?"""

import codecs
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspd.errors import InputError

BLOCK = 1 << 20
QUOTE = ord('"')


class Glance(NamedTuple):
    """What a first look tells."""

    lines: int  # or a few more
    has_quotes: bool
    has_odd_quotes: bool  # one that is not closed, or inside a cell without quotes around it


def glance(file: BinaryIO, path: Path, delimiter: str) -> Glance:
    """Look at every byte; what is no UTF-8 text is refused by its row."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    quotes = _Quotes(delimiter)
    lines, ended, block = 0, True, b""
    while block := file.read(BLOCK):
        if b"\0" in block:
            row = lines + block[: block.index(b"\0")].count(b"\n") + 1
            raise InputError(f"{path}, row {row}: a table must be text, got a zero byte; save it as CSV in UTF-8.")
        if not block.isascii() or decoder.getstate()[0]:
            _check_text(decoder, block, path, lines)
        quotes.see(block)
        lines += block.count(b"\n")
        if b"\r" in block:  # old spreadsheets end lines with it alone
            lines += block.count(b"\r") - block.count(b"\r\n")
        ended = block.endswith((b"\n", b"\r"))
    if decoder.getstate()[0]:
        raise InputError(f"{path} must be UTF-8 text, got a file whose last character is cut off; copy it again.")
    quotes.see(b"\n\n")
    return Glance(lines + (not ended), quotes.any, quotes.odd or quotes.open)


def _check_text(decoder: codecs.IncrementalDecoder, block: bytes, path: Path, lines: int) -> None:
    try:
        decoder.decode(block)
    except UnicodeDecodeError as error:
        row = lines + block[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}, row {row}: a table must be UTF-8 text, got another encoding; save it as UTF-8."
        ) from None


class _Quotes:
    """Every other quote opens: it must follow a delimiter, and the one that closes must come before one."""

    def __init__(self, delimiter: str) -> None:
        self._edges = np.zeros(256, bool)
        self._edges[[*f'{delimiter}\n\r "'.encode()]] = True
        self._kept = np.array([ord("\n")], np.uint8)  # the last two bytes: one was looked at, one waits for the next
        self.any = self.odd = self.open = False

    def see(self, block: bytes) -> None:
        """Look at the next bytes of the file."""
        if b'"' not in block and QUOTE not in self._kept[-2:]:
            self._kept = np.frombuffer(block[-2:], np.uint8)
            return
        data = np.concatenate([self._kept, np.frombuffer(block, np.uint8)])
        self._judge(data)
        self._kept = data[-2:]

    def _judge(self, data: NDArray[np.uint8]) -> None:
        at = np.flatnonzero(data[1:-1] == QUOTE) + 1
        opens = (np.arange(len(at)) % 2 == 0) ^ self.open
        beside = np.where(opens, data[at - 1], data[at + 1])
        self.any |= len(at) > 0
        self.odd |= not self._edges[beside].all()
        self.open ^= len(at) % 2 == 1
