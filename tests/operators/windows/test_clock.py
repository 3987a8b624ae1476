"""Windows with fixed boundaries: their settings, and the slots that follow from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import operators as op
from headrace.operators.windows.clock import ClockWindow
from headrace.operators.windows.zones import ZoneSlots


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Tumbling("0 seconds"), "length"),
        (lambda: op.Tumbling("-1 minute"), "length"),
        (lambda: op.Tumbling("a while"), "length"),
        (lambda: op.Tumbling("1 month"), "length"),
        (lambda: op.Tumbling("1 parsec"), "length"),
        (lambda: op.Tumbling("300 weeks 99999 days"), "length"),
        (lambda: op.Tumbling(60), "length"),  # type: ignore[arg-type]
        (lambda: op.Tumbling("1 minute", offset="-1 second"), "offset"),
        (lambda: op.Hopping("1 minute", every="2 minutes"), "every"),
        (lambda: op.Hopping("1 day", every="1 second"), "every"),
        (lambda: op.Sampling("1 minute", every="1 minute"), "every"),
        (lambda: op.Tumbling("1 day", zone="Europe/Berln"), "zone"),
        (lambda: op.Tumbling("1 day", zone="../etc/passwd"), "zone"),
        (lambda: op.Tumbling("1 hour", zone="Europe/Berlin"), "length"),
        (lambda: op.Hopping("7 days", every="12 hours", zone="Europe/Berlin"), "every"),
    ],
)
def test_windows_without_valid_boundaries_are_rejected(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


@pytest.mark.parametrize(
    ("window", "slots"),
    [
        (op.Tumbling("1 minute"), (60, 60, 0)),
        (op.Tumbling("1 hour", offset="75 minutes"), (3600, 3600, 900)),
        (op.Hopping("10 minutes", every="1 minute"), (600, 60, 0)),
        (op.Sampling("1 minute", every="1 hour", offset="1 minute"), (60, 3600, 60)),
    ],
)
def test_slots_have_length_period_and_offset(window: ClockWindow, slots: tuple[int, int, int]) -> None:
    found = window.slots
    assert not isinstance(found, ZoneSlots)
    assert (found.length_us, found.every_us, found.offset_us) == tuple(each * 1_000_000 for each in slots)


def test_days_in_a_time_zone_have_slots_of_the_zone() -> None:
    found = op.Hopping("7 days", every="1 day", zone="Europe/Berlin", offset="2 hours").slots
    day_us = 86_400_000_000
    assert found == ZoneSlots(
        zone="Europe/Berlin", length_us=7 * day_us, every_us=day_us, offset_us=7_200_000_000
    )


@pytest.mark.parametrize(
    ("more", "is_native"),
    [
        ({}, True),
        ({"late": op.DropLate()}, True),
        ({"aggregate": {"n": "median(x)"}}, True),
        ({"late": op.DropLate(alarm_above=0.1)}, False),
        ({"late": op.Correct(within="1 hour")}, False),
        ({"trigger": op.Trigger()}, False),
        ({"aggregate": {"n": "distinct(x)"}}, False),
    ],
)
def test_a_window_with_a_single_result_runs_natively(more: dict[str, Any], is_native: bool) -> None:
    assert op.Tumbling("1 minute", **more).is_native == is_native
