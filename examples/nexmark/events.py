"""Persons, auctions and bids of an online auction: always the same events, in the order of their arrival.

There are three busy moments, one of which spans midnight. An event arrives up to three seconds after its event time, so
later events overtake it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

SCHEMAS = {
    "persons": "person BIGINT, name STRING, city STRING, state STRING, registered_at TIMESTAMP",
    "auctions": (
        "auction BIGINT, item STRING, seller BIGINT, category INT, opened_at TIMESTAMP, expires_at TIMESTAMP"
    ),
    "bids": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, at TIMESTAMP",
}
TIMES = {"persons": "registered_at", "auctions": "opened_at", "bids": "at"}
"""The event-time column of each stream."""

WATERMARK = "5 seconds"
"""No event arrives this late."""

DELAY_MAX = timedelta(seconds=3)
BUSY_MOMENTS = ("2026-02-28T17:59:50", "2026-02-28T19:59:50", "2026-02-28T23:59:50")
EVENTS_PER_MOMENT = 200
BETWEEN_EVENTS = timedelta(milliseconds=100)
CLOSED_AT = datetime(2026, 3, 3, tzinfo=UTC)

FIRST_PERSON, FIRST_AUCTION = 1000, 1100
CITIES = (("Boise", "ID"), ("Portland", "OR"), ("Fresno", "CA"), ("Kent", "WA"), ("Phoenix", "AZ"))
NAMES = ("Ann", "Bob", "Cleo", "Dora", "Emil", "Fay", "Gus")
CHANNELS = ("Google", "Facebook", "Baidu", "Apple", "channel-1", "channel-2", "channel-3")
SECTIONS = ("art", "books", "coins")


class Event(NamedTuple):
    topic: str
    row: dict[str, Any]

    @property
    def time(self) -> datetime:
        time: datetime = self.row[TIMES[self.topic]]
        return time


def events() -> list[Event]:
    """All events, in the order of their arrival."""
    random = Random(2)
    arrivals = [(event.time + random.random() * DELAY_MAX, event) for event in _in_order(random)]
    return [event for _, event in sorted(arrivals, key=lambda arrival: arrival[0])]


def closing_events() -> list[Event]:
    """An event of each topic, days later: it moves the watermark past all others.

    It passes the filters of all queries, because Spark may apply a filter before it looks at the watermark.
    """
    random = Random(3)
    person, auction, bid = (
        _person(FIRST_PERSON - 1, CLOSED_AT, random),
        _auction(FIRST_AUCTION - 1, CLOSED_AT, random, seller=FIRST_PERSON - 1),
        _bid(CLOSED_AT, random, auction=FIRST_AUCTION - 1, bidder=FIRST_PERSON - 1),
    )
    person.row["state"], auction.row["category"] = "OR", 10
    return [person, auction, bid]


def rows_of(topic: str, found: Sequence[Event]) -> list[dict[str, Any]]:
    return [event.row for event in found if event.topic == topic]


def _in_order(random: Random) -> Iterator[Event]:
    """By event time. Of fifty events, one is a person, three are auctions, and the others are bids."""
    persons, auctions = FIRST_PERSON, FIRST_AUCTION
    for moment in BUSY_MOMENTS:
        start = datetime.fromisoformat(moment).replace(tzinfo=UTC)
        for number in range(EVENTS_PER_MOMENT):
            time = start + number * BETWEEN_EVENTS
            kind = number % 50
            if kind == 0:
                yield _person(persons, time, random)
                persons += 1
            elif kind in (1, 2, 25):
                yield _auction(
                    auctions, time, random, seller=random.randrange(max(FIRST_PERSON, persons - 6), persons)
                )
                auctions += 1
            else:
                yield _bid(
                    time,
                    random,
                    auction=random.randrange(max(FIRST_AUCTION, auctions - 4), auctions),
                    bidder=random.randrange(FIRST_PERSON, persons),
                )


def _person(person: int, time: datetime, random: Random) -> Event:
    city, state = random.choice(CITIES)
    row = {
        "person": person,
        "name": f"{random.choice(NAMES)} {person}",
        "city": city,
        "state": state,
        "registered_at": time,
    }
    return Event("persons", row)


def _auction(auction: int, time: datetime, random: Random, *, seller: int) -> Event:
    row = {
        "auction": auction,
        "item": f"item {auction}",
        "seller": seller,
        "category": random.choice((10, 11, 12)),
        "opened_at": time,
        "expires_at": time + timedelta(seconds=random.randrange(4, 12)),
    }
    return Event("auctions", row)


def _bid(time: datetime, random: Random, *, auction: int, bidder: int) -> Event:
    channel = random.choice(CHANNELS)
    url = f"https://auctions.example/{random.choice(SECTIONS)}/{auction % 7}/item.htm?query=1"
    if channel == "channel-1":
        url += f"&channel_id={random.randrange(100)}"
    elif channel == "channel-2":
        url += f"&from=mail&channel_id={random.randrange(100)}&page=2"
    row = {
        "auction": auction,
        "bidder": bidder,
        "price": random.randrange(1, 100) * 10 ** random.randrange(2, 7),
        "channel": channel,
        "url": url,
        "at": time,
    }
    return Event("bids", row)
