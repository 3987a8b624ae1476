"""Dates and times from PostgreSQL's text (datestyle ISO, time zone UTC) to the values of Debezium's time types.

Years before 1 and after 9999 exist in PostgreSQL and not in Python's datetime, so they are computed here.

JSON has no infinity. `infinity` and `-infinity` become the numbers below, or stay a text where the value is a text.
"""

from __future__ import annotations

from datetime import date

INFINITE_DAYS = {"infinity": 2**31 - 1, "-infinity": -(2**31)}
# The values that Debezium's connector for PostgreSQL documents.
INFINITE_US = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}

_UNIX_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
# The Gregorian calendar repeats after so many years.
_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097


def days(text: str) -> int:
    """Days since 1970: `io.debezium.time.Date`."""
    if text in INFINITE_DAYS:
        return INFINITE_DAYS[text]
    return _days(*_era(text))


def micros_of_day(text: str) -> int:
    """Microseconds since midnight: `io.debezium.time.MicroTime`. 24:00:00 is a time of PostgreSQL."""
    whole, _, fraction = text.partition(".")
    seconds = int(whole[0:2]) * 3600 + int(whole[3:5]) * 60 + int(whole[6:8])
    return seconds * 1_000_000 + (int(fraction.ljust(6, "0")) if fraction else 0)


def micros(text: str) -> int:
    """Microseconds since 1970: `io.debezium.time.MicroTimestamp`."""
    if text in INFINITE_US:
        return INFINITE_US[text]
    stamp, is_bc = _era(text)
    day, _, time_of_day = stamp.partition(" ")
    return _days(day, is_bc) * _DAY_US + micros_of_day(time_of_day)


def millis_of_day(text: str) -> int:
    """Milliseconds since midnight: `io.debezium.time.Time`."""
    return micros_of_day(text) // 1_000


def millis(text: str) -> int:
    """Milliseconds since 1970: `io.debezium.time.Timestamp`."""
    return micros(text) // 1_000


def zoned_timestamp(text: str) -> str:
    """ISO 8601 in UTC: `io.debezium.time.ZonedTimestamp`. The session's time zone is UTC: the text ends with +00."""
    if text in INFINITE_US:
        return text
    stamp, is_bc = _era(text)
    day, _, time_of_day = stamp.partition(" ")
    if is_bc or len(day) != 10:
        year_text, month_and_day = day.split("-", 1)
        # ISO 8601 has a year 0, the year 1 BC, and a sign before years of more than four digits.
        year = 1 - int(year_text) if is_bc else int(year_text)
        sign = "-" if year < 0 else "+" if year > 9999 else ""
        day = f"{sign}{abs(year):04d}-{month_and_day}"
    return f"{day}T{time_of_day.removesuffix('+00')}Z"


def zoned_time(text: str) -> str:
    """A time of the day in UTC: `io.debezium.time.ZonedTime`. PostgreSQL keeps the offset that was written."""
    at = max(text.rfind("+"), text.rfind("-"))
    time_us = micros_of_day(text[:at])
    hours, minutes, seconds = (*map(int, text[at + 1 :].split(":")), 0, 0)[:3]
    offset_us = (hours * 3600 + minutes * 60 + seconds) * 1_000_000
    utc_us = (time_us - offset_us if text[at] == "+" else time_us + offset_us) % _DAY_US
    seconds_total, fraction_us = divmod(utc_us, 1_000_000)
    fraction = f".{fraction_us:06d}".rstrip("0") if fraction_us else ""
    return f"{seconds_total // 3600:02d}:{seconds_total // 60 % 60:02d}:{seconds_total % 60:02d}{fraction}Z"


def _era(text: str) -> tuple[str, bool]:
    return (text[:-3], True) if text.endswith(" BC") else (text, False)


def _days(text: str, is_bc: bool) -> int:
    if len(text) == 10 and not is_bc:
        return date.fromisoformat(text).toordinal() - _UNIX_EPOCH_ORDINAL
    year_text, month, day = text.split("-")
    year = 1 - int(year_text) if is_bc else int(year_text)
    # The same day in a year that Python knows, some whole cycles away.
    cycles = (year - 2000) // _CYCLE_YEARS
    known = date(year - cycles * _CYCLE_YEARS, int(month), int(day))
    return known.toordinal() - _UNIX_EPOCH_ORDINAL + cycles * _CYCLE_DAYS
