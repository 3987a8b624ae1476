"""Regular expressions for topics, in the syntax of RE2 as in Kafka: matching takes linear time, whatever the pattern.

That is why it is RE2 and not Python's `re`: a pattern comes from a client, and the broker has one event loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.errors import HeadraceError

PROGRAM_BYTES_MAX = 1_048_576
"""Memory of one compiled pattern. Sane ones need some kilobytes; `((a{100}){100}){100}` is rejected."""


def compiled(pattern: str) -> Any:
    """Raises HeadraceError if it is not a regular expression of RE2, or takes too much memory."""
    import re2  # half of the broker's groups never need it, and it costs some milliseconds

    options = re2.Options()
    options.max_mem = PROGRAM_BYTES_MAX
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise HeadraceError(text, hint="write it in the syntax of RE2") from error


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that match as a whole."""
    found = compiled(pattern)
    return frozenset(name for name in names if found.fullmatch(name))
