"""The settings of edges: the `[edge]` table of headrace.toml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headrace.settings import load, setting

Policy = Literal["drop-newest", "drop-oldest", "buffer", "block"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSettings:
    data_dir: Path = setting(Path("data"), doc="Folder of the buffers of edges, in its subfolder edges.")
    overload: Policy = setting(
        "block",
        doc="What happens when events arrive faster than the broker takes them: `drop-newest`, `drop-oldest`, "
        "`buffer` (on disk) or `block` (the sender waits).",
    )
    memory_bytes_max: int = setting(
        64 * 1024 * 1024,
        minimum=1024 * 1024,
        doc="Events that wait in memory, with some 500 bytes each for their objects: a second of a fast sender.",
    )
    in_flight_bytes_max: int = setting(
        32 * 1024 * 1024,
        minimum=1024 * 1024,
        doc="Events that were sent and are not acknowledged: enough for full requests to a broker in another city.",
    )
    buffer_bytes_max: int = setting(
        1024 * 1024 * 1024,
        minimum=1024 * 1024,
        doc="The buffer of an edge on disk; a full one blocks. Up to an eighth of it may be events that are delivered.",
    )
    stop_s: int = setting(
        10,
        minimum=0,
        doc="How long an edge that is stopped waits for the broker; what is left is dropped, or stays in the buffer.",
    )


def edge_settings(**flags: Any) -> EdgeSettings:
    """The settings with these flags; None is a flag that is not set."""
    return load(EdgeSettings, section="edge", flags=flags)
