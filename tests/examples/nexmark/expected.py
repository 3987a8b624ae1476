"""The results of the queries of Nexmark, computed by plain loops over the events, without Spark and operators."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

Row = dict[str, Any]

EUROS = Decimal("0.908")
RANKS = {"rank1": (0, 9_999), "rank2": (10_000, 999_999), "rank3": (1_000_000, 10**12)}
MIDNIGHT = datetime(2026, 2, 28, tzinfo=UTC)


def q0(bids: list[Row]) -> list[Row]:
    return [_only(bid, "auction", "bidder", "price", "at") for bid in bids]


def q1(bids: list[Row]) -> list[Row]:
    return [{**row, "price": EUROS * row["price"]} for row in q0(bids)]


def q2(bids: list[Row]) -> list[Row]:
    return [_only(bid, "auction", "price") for bid in bids if bid["auction"] in (984, 1107, 1230)]


def q3(auctions: list[Row], persons: list[Row]) -> list[Row]:
    return [
        {**_only(person, "name", "city", "state"), "auction": auction["auction"]}
        for auction in auctions
        for person in persons
        if auction["seller"] == person["person"]
        and auction["category"] == 10
        and person["state"] in ("OR", "ID", "CA")
    ]


def q4(auctions: list[Row], bids: list[Row]) -> list[Row]:
    finals: dict[int, list[int]] = defaultdict(list)
    for auction in auctions:
        prices = [bid["price"] for bid in _valid(auction, bids)]
        if prices:
            finals[auction["category"]].append(max(prices))
    return [
        {"category": category, "average": sum(prices) / len(prices)} for category, prices in finals.items()
    ]


def q5(bids: list[Row]) -> list[Row]:
    rows = []
    end, step, length = min(_times(bids)), timedelta(seconds=2), timedelta(seconds=10)
    end -= (end - MIDNIGHT) % step
    while end <= max(_times(bids)) + length:
        counts: dict[int, int] = defaultdict(int)
        for bid in bids:
            if end - length <= bid["at"] < end:
                counts[bid["auction"]] += 1
        rows += [
            {"auction": auction, "n": n, "window_start": end - length, "window_end": end}
            for auction, n in counts.items()
            if n == max(counts.values())
        ]
        end += step
    return rows


def q7(bids: list[Row]) -> list[Row]:
    rows = []
    for start, in_window in _by_window(bids, "at", timedelta(seconds=10)).items():
        highest = max(bid["price"] for bid in in_window)
        rows += [
            {**_only(bid, "auction", "bidder", "price", "at"), "window_end": start + timedelta(seconds=10)}
            for bid in in_window
            if bid["price"] == highest
        ]
    return rows


def q8(persons: list[Row], auctions: list[Row]) -> list[Row]:
    opened = _by_window(auctions, "opened_at", timedelta(seconds=10))
    return [
        {**_only(person, "person", "name"), "window_start": start, "seller": person["person"]}
        for start, registered in _by_window(persons, "registered_at", timedelta(seconds=10)).items()
        for person in registered
        if person["person"] in {auction["seller"] for auction in opened.get(start, [])}
    ]


def q9(auctions: list[Row], bids: list[Row]) -> list[Row]:
    rows = []
    for auction in auctions:
        valid = sorted(_valid(auction, bids), key=lambda bid: (-bid["price"], bid["at"]))
        rows += [
            {**_only(auction, "auction", "item", "seller"), **_only(bid, "bidder", "price", "at")}
            for bid in valid[:1]
        ]
    return rows


def q11(bids: list[Row]) -> list[Row]:
    gap, rows = timedelta(seconds=10), []
    for bidder in {bid["bidder"] for bid in bids}:
        session: list[datetime] = []
        for time in sorted(_times(bid for bid in bids if bid["bidder"] == bidder)):
            if session and time - session[-1] >= gap:
                rows.append(_session(bidder, session, gap))
                session = []
            session.append(time)
        rows.append(_session(bidder, session, gap))
    return rows


def q14(bids: list[Row]) -> list[Row]:
    parts = ["night"] * 7 + ["other"] + ["day"] * 11 + ["other"] + ["night"] * 4
    return [
        {**row, "part_of_day": parts[bid["at"].hour], "count_of_c": bid["url"].count("c")}
        for row, bid in zip(q1(bids), bids, strict=True)
        if 1_000_000 < row["price"] < 50_000_000
    ]


def q15(bids: list[Row]) -> list[Row]:
    return [
        {"window_start": start, "window_end": start + timedelta(days=1), **_statistics(of_day)}
        for start, of_day in _by_window(bids, "at", timedelta(days=1)).items()
    ]


def q16(bids: list[Row]) -> list[Row]:
    rows = []
    for start, of_day in _by_window(bids, "at", timedelta(days=1)).items():
        for channel in {bid["channel"] for bid in of_day}:
            own = [bid for bid in of_day if bid["channel"] == channel]
            row = {"channel": channel, "window_start": start, "window_end": start + timedelta(days=1)}
            rows.append({**row, "last_minute": f"{max(_times(own)):%H:%M}", **_statistics(own)})
    return rows


def q17(bids: list[Row]) -> list[Row]:
    rows = []
    for auction, day in {(bid["auction"], bid["at"].date()) for bid in bids}:
        own = [bid for bid in bids if (bid["auction"], bid["at"].date()) == (auction, day)]
        prices = [bid["price"] for bid in own]
        rows.append(
            {
                "auction": auction,
                "day": day.isoformat(),
                "bids": len(own),
                **{rank: len(_of_rank(own, rank)) for rank in RANKS},
                "min": min(prices),
                "max": max(prices),
                "avg": sum(prices) / len(prices),
                "sum": sum(prices),
            }
        )
    return rows


def q18(bids: list[Row]) -> list[Row]:
    last: dict[tuple[int, int], Row] = {}
    for bid in sorted(bids, key=lambda bid: bid["at"]):
        last[bid["bidder"], bid["auction"]] = bid
    return list(last.values())


def q19(bids: list[Row]) -> list[Row]:
    rows = []
    for auction in {bid["auction"] for bid in bids}:
        own = [bid for bid in bids if bid["auction"] == auction]
        best = sorted(own, key=lambda bid: (-bid["price"], bid["at"]))[:10]
        rows += [{**bid, "rank": rank} for rank, bid in enumerate(best, start=1)]
    return rows


def q20(bids: list[Row], auctions: list[Row]) -> list[Row]:
    by_id = {auction["auction"]: auction for auction in auctions if auction["category"] == 10}
    return [{**bid, **by_id[bid["auction"]]} for bid in bids if bid["auction"] in by_id]


def q21(bids: list[Row]) -> list[Row]:
    rows = []
    for bid in bids:
        found = re.search(r"&channel_id=(\d+)", bid["url"])
        known = {"Apple": "0", "Google": "1", "Facebook": "2", "Baidu": "3"}.get(bid["channel"])
        channel_id = known or (found and found[1])
        if channel_id:
            rows.append({**_only(bid, "auction", "bidder", "price", "channel"), "channel_id": channel_id})
    return rows


def q22(bids: list[Row]) -> list[Row]:
    rows = []
    for bid in bids:
        first, second, third = bid["url"].removeprefix("https://auctions.example/").split("/")
        row = _only(bid, "auction", "bidder", "price", "channel")
        rows.append({**row, "dir1": first, "dir2": second, "dir3": third})
    return rows


def _only(row: Row, *names: str) -> Row:
    return {name: row[name] for name in names}


def _times(bids: Iterable[Row]) -> list[datetime]:
    return [bid["at"] for bid in bids]


def _valid(auction: Row, bids: list[Row]) -> list[Row]:
    return [
        bid
        for bid in bids
        if bid["auction"] == auction["auction"] and auction["opened_at"] <= bid["at"] <= auction["expires_at"]
    ]


def _by_window(rows: list[Row], time: str, length: timedelta) -> dict[datetime, list[Row]]:
    found: dict[datetime, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[time] - (row[time] - MIDNIGHT) % length].append(row)
    return found


def _session(bidder: int, times: list[datetime], gap: timedelta) -> Row:
    return {"bidder": bidder, "window_start": times[0], "window_end": times[-1] + gap, "n": len(times)}


def _of_rank(bids: list[Row], rank: str) -> list[Row]:
    low, high = RANKS[rank]
    return [bid for bid in bids if low <= bid["price"] <= high]


def _statistics(bids: list[Row]) -> Row:
    row: Row = _counts(bids, "")
    for rank in RANKS:
        row |= _counts(_of_rank(bids, rank), f"_{rank}")
    return row


def _counts(bids: list[Row], suffix: str) -> Row:
    return {
        f"bids{suffix}": len(bids),
        f"bidders{suffix}": len({bid["bidder"] for bid in bids}),
        f"auctions{suffix}": len({bid["auction"] for bid in bids}),
    }
