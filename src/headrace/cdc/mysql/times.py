"""Dates and times from their parts, or from text, to the values of Debezium's time types.

MySQL has dates that are none: 0000-00-00, or a month and a day of 0. They are None here.
"""

from __future__ import annotations

from datetime import date

_UNIX_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000


def days(year: int, month: int, day: int) -> int | None:
    """Days since 1970: `io.debezium.time.Date`."""
    try:
        return date(year, month, day).toordinal() - _UNIX_EPOCH_ORDINAL
    except ValueError:
        return None


def micros_of_day(hours: int, minutes: int, seconds: int, fraction_us: int) -> int:
    """Microseconds: `io.debezium.time.MicroTime`. A TIME of MySQL has up to 838 hours, and may be negative."""
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction_us


def micros(day: int | None, time_us: int) -> int | None:
    """Microseconds since 1970: `io.debezium.time.MicroTimestamp`."""
    return None if day is None else day * _DAY_US + time_us


def zoned(epoch_us: int) -> str:
    """ISO 8601 in UTC: `io.debezium.time.ZonedTimestamp`."""
    day, time_us = divmod(epoch_us, _DAY_US)
    seconds, fraction_us = divmod(time_us, 1_000_000)
    fraction = f".{fraction_us:06d}".rstrip("0") if fraction_us else ""
    text = date.fromordinal(day + _UNIX_EPOCH_ORDINAL).isoformat()
    return f"{text}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}Z"


def days_of_text(text: str) -> int | None:
    """From `2026-11-18`."""
    year, month, day = text.split("-")
    return days(int(year), int(month), int(day))


def time_of_text(text: str) -> int:
    """From `-838:59:59.000001`."""
    is_negative = text.startswith("-")
    whole, _, fraction = text.lstrip("-").partition(".")
    hours, minutes, seconds = (int(part) for part in whole.split(":"))
    time_us = micros_of_day(hours, minutes, seconds, int(fraction.ljust(6, "0")) if fraction else 0)
    return -time_us if is_negative else time_us


def micros_of_text(text: str) -> int | None:
    """From `2026-11-18 10:00:00.5`."""
    day, _, time_of_day = text.partition(" ")
    return micros(days_of_text(day), time_of_text(time_of_day))


def zoned_of_text(text: str) -> str | None:
    """From a TIMESTAMP, which a session in UTC prints like a DATETIME."""
    epoch_us = micros_of_text(text)
    return None if epoch_us is None else zoned(epoch_us)
