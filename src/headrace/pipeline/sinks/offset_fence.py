"""How a fence is written into a Kafka cluster: as the metadata of committed offsets, and so within a transaction.

No topic is needed for it, and any Kafka has it. The offset is the batch id plus one, the metadata is the
fence. Clusters take 4,096 bytes of metadata at most; a fence of more is packed, cut, and kept in several
groups whose names are numbered."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable

from headrace.pipeline.errors import BadJob

METADATA_BYTES_MAX = 4_000
"""`offset.metadata.max.bytes` is 4,096 by default; some bytes are reserved for the count in front."""

GROUPS_MAX = 64
"""A fence of 256 kB after packing: tens of thousands of partitions. More is no fence."""

_PACKED = "packed:"


def group_name(writer: str, number: int) -> str:
    """The group that keeps one piece of the fence. The first has the writer's own name."""
    return writer if number == 0 else f"{writer}:part-{number}"


def cut(text: str) -> list[str]:
    """The pieces to keep, in the order of their groups. A short text stays as it is, for people who look."""
    if len(text.encode()) <= METADATA_BYTES_MAX and not text.startswith(_PACKED):
        return [text]
    packed = base64.b85encode(zlib.compress(text.encode(), 9)).decode()
    pieces = [
        packed[start : start + METADATA_BYTES_MAX] for start in range(0, len(packed), METADATA_BYTES_MAX)
    ]
    if len(pieces) > GROUPS_MAX:
        raise BadJob(
            f"the positions of this batch take {len(packed):,} bytes; "
            f"{GROUPS_MAX * METADATA_BYTES_MAX:,} can be kept",
            hint="read fewer topics or partitions in one job",
        )
    return [f"{_PACKED}{len(pieces)}:{pieces[0]}", *pieces[1:]]


def join(first: str, piece_of: Callable[[int], str]) -> str:
    """The text that was cut; `piece_of` returns the pieces after the first."""
    if not first.startswith(_PACKED):
        return first
    try:
        count, _, start = first.removeprefix(_PACKED).partition(":")
        packed = start + "".join(piece_of(number) for number in range(1, int(count)))
        return zlib.decompress(base64.b85decode(packed)).decode()
    except (ValueError, zlib.error, binascii.Error) as error:
        raise BadJob(
            f"the pieces of a fence do not fit together: {error}",
            hint="another program committed offsets to its groups; give the job another name",
        ) from error
