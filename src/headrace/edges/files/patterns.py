"""Regular expressions of users, in the syntax of RE2: matching takes linear time, whatever the line."""

from __future__ import annotations

from typing import Any

import re2

from headrace.edges.errors import BadEdge

PROGRAM_BYTES_MAX = 1 << 20
"""Memory of a compiled expression; sane ones need some kilobytes."""


def compiled(expression: str, *, option: str) -> Any:
    """The expression for bytes: lines need not be UTF-8."""
    options = re2.Options()
    options.max_mem = PROGRAM_BYTES_MAX
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1
    try:
        return re2.compile(expression.encode(), options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise BadEdge(f"{option} {expression!r}: {text}", hint="write it in the syntax of RE2") from error
