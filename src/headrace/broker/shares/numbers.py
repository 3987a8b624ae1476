"""The metrics of a share group. They are read in a thread, which changes nothing."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import asdict

from headrace.broker.shares.share_partition import SharePartition
from headrace.broker.shares.states import RecordState
from headrace.errors import HeadraceError

SHARE_GAUGES = {
    "members": "Members of a share group.",
    "in_flight": "Records that are locked by members.",
    "waiting": "Records that are to be delivered, for the first time or again.",
    "dying": "Records whose dead letter is not written yet.",
    "window_pieces": "Ranges that the state of a group consists of.",
    "oldest_age_seconds": "Age of the oldest record that is not done.",
}

SHARE_COUNTERS = {
    "delivered": "Records handed to members.",
    "redelivered": "Records handed to members for another time.",
    "accepted": "Records accepted.",
    "released": "Records released by members.",
    "rejected": "Records rejected by members.",
    "expired": "Records whose lock expired.",
    "dead_letters": "Dead letters written.",
    "dead_letter_failures": "Times that dead letters could not be written.",
}


def group_numbers(shares: Iterable[SharePartition], now_ms: int) -> dict[str, float]:
    """By the names above, without the members."""
    numbers: dict[str, float] = dict.fromkeys((*SHARE_GAUGES, *SHARE_COUNTERS), 0)
    for share in shares:
        window = share.window
        in_flight, dying = window.records_in(RecordState.ACQUIRED), window.records_in(RecordState.ARCHIVING)
        numbers["in_flight"] += in_flight
        numbers["dying"] += dying
        numbers["waiting"] += max(share.lag - in_flight - dying, 0)
        numbers["window_pieces"] += window.pieces
        numbers["redelivered"] += window.redelivered_records
        numbers["oldest_age_seconds"] = max(numbers["oldest_age_seconds"], _age_s(share, now_ms))
        for name, count in asdict(share.counters).items():
            numbers[name] += count
    return numbers


def _age_s(share: SharePartition, now_ms: int) -> float:
    try:
        oldest_ms = share.oldest_timestamp_ms()
    except (HeadraceError, OSError):
        return 0.0  # retention is deleting it
    return max(now_ms - oldest_ms, 0) / 1000 if oldest_ms is not None and oldest_ms >= 0 else 0.0
