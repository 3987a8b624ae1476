"""File descriptors: as many as the system allows, and a reserve for files that connections can't use.

A connection is a descriptor, and so is each segment in use. Clients can connect as they like; a log that can open
no file can store no record.
"""

from __future__ import annotations

import contextlib
import resource

# The broker's own: the event loop, listeners, the lock, standard streams, libraries that read a file now and then.
OWN_DESCRIPTORS = 32


def raise_limit() -> None:
    """Raise the limit from the usual 1,024 to what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS reports no limit, but has one
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def current_limit() -> int | None:
    """Descriptors that this process may have; None if unlimited."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def connections_max(wanted: int, limit: int | None) -> int:
    """Connections to accept: a quarter of all descriptors is reserved for files."""
    return wanted if limit is None else max(1, min(wanted, limit * 3 // 4 - OWN_DESCRIPTORS))


def wanted(*, connections: int, partitions: int) -> int:
    """Descriptors for the connections, and for an active and a closed segment of each partition."""
    return OWN_DESCRIPTORS + connections + 2 * partitions
