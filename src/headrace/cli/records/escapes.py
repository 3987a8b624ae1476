r"""Characters that a shell can't type easily: `\t`, `\n`, `\x1f` in an argument."""

from __future__ import annotations

import re

from headrace.cli.addresses import BadArgument

_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.|$)", re.DOTALL)
_CHARACTERS = {"t": b"\t", "n": b"\n", "r": b"\r", "0": b"\0", "\\": b"\\"}


def unescape(text: str, *, option: str) -> bytes:
    r"""Escapes such as `\t` as bytes; everything else unchanged."""

    def plain(found: re.Match[bytes]) -> bytes:
        code = found[1].decode(errors="replace")
        if len(code) == 3:
            return bytes([int(code[1:], 16)])
        if code not in _CHARACTERS:
            raise BadArgument(
                f"{option} {text!r} has an unknown escape \\{code}",
                hint=r"write \t, \n, \r, \0, \x1f, or \\ for a backslash",
            )
        return _CHARACTERS[code]

    return _ESCAPE.sub(plain, text.encode(errors="surrogateescape"))
