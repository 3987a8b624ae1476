"""kcat's format strings: `-f '%t %p %o %k=%s\\n'`. Each code writes what it writes in kcat; no broker is involved."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from headrace.cli.addresses import BadArgument
from headrace.cli.records.consume_output import headers_of, plain_bytes
from headrace.cli.records.escapes import unescape

if TYPE_CHECKING:
    from confluent_kafka import Message

Piece = bytes | Callable[["Message"], bytes]


def _length(data: bytes | str | None) -> int:
    return -1 if data is None else len(plain_bytes(data))


def _headers(message: Message) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in headers_of(message)
    )


CODES: dict[str, Piece] = {
    "s": lambda message: plain_bytes(message.value()),
    "S": lambda message: b"%d" % _length(message.value()),
    "R": lambda message: struct.pack(">i", _length(message.value())),
    "k": lambda message: plain_bytes(message.key()),
    "K": lambda message: b"%d" % _length(message.key()),
    "t": lambda message: (message.topic() or "").encode(),
    "p": lambda message: b"%d" % (message.partition() or 0),
    "o": lambda message: b"%d" % (message.offset() or 0),
    "T": lambda message: b"%d" % message.timestamp()[1],
    "h": _headers,
    "%": b"%",
}


def parse_template(text: str) -> list[Piece]:
    """Literal bytes, and functions that make bytes of a record."""
    pieces: list[Piece] = []
    for part in re.findall(r"%.?|[^%]+", text, re.DOTALL):
        if not part.startswith("%"):
            pieces.append(unescape(part, option="--template"))
        elif part[1:] in CODES:
            pieces.append(CODES[part[1:]])
        else:
            raise BadArgument(
                f"--template {text!r} has an unknown code {part}",
                hint=f"the codes are {' '.join(f'%{code}' for code in CODES)}",
            )
    return pieces


def template_writer(pieces: Sequence[Piece], stream: BinaryIO) -> Callable[[Message], None]:
    def write(message: Message) -> None:
        stream.write(b"".join(piece if isinstance(piece, bytes) else piece(message) for piece in pieces))

    return write
