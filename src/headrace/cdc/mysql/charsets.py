"""Text of the binary log, which has the character set of its column, to Python's.

Python knows the character sets with several bytes for a character. Those with one byte are asked from the server: it
has some that Python lacks, and its latin1 is not Python's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headrace.cdc.mysql.connection import Connection

Decode = Callable[[bytes], str]

BINARY = "binary"
_CODECS = {
    "ascii": "ascii",
    "utf8": "utf-8",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "big5": "big5",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "gb18030": "gb18030",
    "sjis": "shift_jis",
    "cp932": "cp932",
    "ujis": "euc_jp",
    "eucjpms": "euc_jp",
    "euckr": "euc_kr",
}


class Charsets:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._by_collation: dict[int, str] | None = None
        self._decoders: dict[str, Decode] = {}

    def of_collation(self, number: int) -> str:
        """The character set of a collation, whose number the binary log has; UTF-8 if the server has no such number."""
        if self._by_collation is None:
            rows = self._connection.execute(
                "SELECT id, character_set_name FROM information_schema.collations"
            )
            self._by_collation = {int(id): name for id, name in rows if id is not None and name}
        return self._by_collation.get(number, "utf8mb4")

    def decoder(self, charset: str) -> Decode:
        """A byte that is not valid becomes a replacement character: what the database stores is not rejected."""
        if charset not in self._decoders:
            codec = _CODECS.get(charset)
            self._decoders[charset] = self._single_byte(charset) if codec is None else partial(_decode, codec)
        return self._decoders[charset]

    def _single_byte(self, charset: str) -> Decode:
        assert charset.isalnum(), charset
        every_byte = bytes(range(256)).hex()
        table = self._connection.value(f"SELECT CONVERT(_{charset} X'{every_byte}' USING utf8mb4)")
        assert len(table) == 256, f"{charset} has several bytes for a character"
        return partial(_translate, table)


def _decode(codec: str, data: bytes) -> str:
    return data.decode(codec, "replace")


def _translate(table: str, data: bytes) -> str:
    return "".join([table[byte] for byte in data])
