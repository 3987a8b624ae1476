"""The queries of Nexmark, under the numbers that Apache Flink's version of the benchmark gives them.

The parameters of a query are its topics. Each query works on a stream and on bounded rows, and ends with the same rows.

Of q0 to q22, four are missing: q6 (Flink does not run it either), q10 (it tests a sink), q12 (processing time: its rows
depend on when it runs) and q13 (a join with a file).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace import operators as op

DOLLAR_IN_EUROS = "0.908"
PRICE_RANKS = {
    "rank1": "price < 10000",
    "rank2": "price BETWEEN 10000 AND 999999",
    "rank3": "price >= 1000000",
}


def q0(bids: DataFrame) -> DataFrame:
    """Pass through: the cost of the platform itself."""
    return bids.select("auction", "bidder", "price", "at")


def q1(bids: DataFrame) -> DataFrame:
    """Currency conversion: prices in euros."""
    return bids.select("auction", "bidder", F.expr(f"{DOLLAR_IN_EUROS} * price").alias("price"), "at")


def q2(bids: DataFrame) -> DataFrame:
    """Selection: the bids on some auctions."""
    return bids.where("auction % 123 = 0").select("auction", "price")


def q3(auctions: DataFrame, persons: DataFrame) -> DataFrame:
    """Local item suggestion: who sells items of category 10 in Oregon, Idaho or California?"""
    sellers = persons.where("state IN ('OR', 'ID', 'CA')").select("person", "name", "city", "state")
    items = auctions.where("category = 10").select("auction", "seller")
    sales = items.transform(op.JoinTables(sellers, on={"seller": "person"}))
    return sales.select("name", "city", "state", "auction", "op")


def q4(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    """Average price by category: of the highest bids of all auctions."""
    offers = auctions.transform(op.JoinTables(bids, on="auction"))
    valid = offers.where("at BETWEEN opened_at AND expires_at")
    highest = valid.transform(op.GroupChanges(by=["auction", "category"], aggregate={"final": "max(price)"}))
    return highest.transform(op.GroupChanges(by="category", aggregate={"average": "avg(final)"}))


def q5(bids: DataFrame) -> DataFrame:
    """Hot items: every 2 seconds, the auctions with the most bids of the last 10 seconds."""
    counts = bids.transform(
        op.Hopping("10 seconds", every="2 seconds", by="auction", aggregate={"n": "count(*)"}, time="at")
    ).select("auction", "n", "window_start", "window_end", "op")
    most = counts.transform(op.GroupChanges(by="window_end", aggregate={"n": "max(n)"}))
    return counts.transform(op.JoinTables(most, on=["window_end", "n"]))


def q7(bids: DataFrame) -> DataFrame:
    """Highest bid: of every 10 seconds, with the bidder."""
    highest = bids.transform(op.Tumbling("10 seconds", aggregate={"price": "max(price)"}, time="at")).select(
        "price", "window_end"
    )
    found = bids.transform(
        op.JoinWithin(highest, on="price", after="10 seconds", time="at", other_time="window_end")
    )
    return found.where("at < window_end").select("auction", "bidder", "price", "at", "window_end")


def q8(persons: DataFrame, auctions: DataFrame) -> DataFrame:
    """New users: persons who registered and opened an auction within the same 10 seconds."""
    registered = persons.transform(
        op.Tumbling("10 seconds", by=["person", "name"], time="registered_at")
    ).select("person", "name", "window_start", "op")
    sellers = auctions.transform(op.Tumbling("10 seconds", by="seller", time="opened_at")).select(
        "seller", "window_start", "op"
    )
    return registered.transform(
        op.JoinTables(sellers, on={"person": "seller", "window_start": "window_start"})
    )


def q9(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    """Winning bids: the highest bid of each auction, and the first of equal ones."""
    offers = auctions.transform(
        op.JoinWithin(bids, on="auction", after="1 minute", time="opened_at", other_time="at")
    )
    valid = offers.where("at <= expires_at")
    winning = valid.transform(op.Newest(1, by="auction", order={"price": "desc", "at": "asc"}))
    return winning.select("auction", "item", "seller", "bidder", "price", "at", "op")


def q11(bids: DataFrame) -> DataFrame:
    """User sessions: how many bids does a person make before a pause of 10 seconds?"""
    return bids.transform(op.Session(gap="10 seconds", by="bidder", aggregate={"n": "count(*)"}, time="at"))


def q14(bids: DataFrame) -> DataFrame:
    """Calculation: an expression of every kind, and a filter on one of them."""
    hour = "hour(at)"
    return bids.selectExpr(
        "auction",
        "bidder",
        f"{DOLLAR_IN_EUROS} * price AS price",
        f"CASE WHEN {hour} BETWEEN 8 AND 18 THEN 'day' "
        f"WHEN {hour} <= 6 OR {hour} >= 20 THEN 'night' ELSE 'other' END AS part_of_day",
        "at",
        "regexp_count(url, 'c') AS count_of_c",
    ).where("price > 1000000 AND price < 50000000")


def q15(bids: DataFrame) -> DataFrame:
    """Bidding statistics of each day: bids, bidders and auctions, by rank of the price."""
    return bids.transform(op.Tumbling("1 day", aggregate=_statistics(), time="at"))


def q16(bids: DataFrame) -> DataFrame:
    """Channel statistics of each day, updated with every batch."""
    return bids.transform(
        op.Tumbling(
            "1 day",
            by="channel",
            aggregate={"last_minute": "max(date_format(at, 'HH:mm'))", **_statistics()},
            time="at",
            trigger=op.Trigger(early=1),
        )
    )


def q17(bids: DataFrame) -> DataFrame:
    """Auction statistics of each day, as a table that is always up to date."""
    prices = {name: f"{name}(price)" for name in ("min", "max", "avg", "sum")}
    ranks = {rank: f"count(IF({condition}, 1, NULL))" for rank, condition in PRICE_RANKS.items()}
    days = bids.withColumn("day", F.date_format("at", "yyyy-MM-dd"))
    return days.transform(
        op.GroupChanges(by=["auction", "day"], aggregate={"bids": "count(*)", **ranks, **prices})
    )


def q18(bids: DataFrame) -> DataFrame:
    """Last bid: of each person on each auction."""
    return bids.transform(op.Newest(1, by=["bidder", "auction"], order="at"))


def q19(bids: DataFrame) -> DataFrame:
    """Top 10: the highest bids on each auction, with their rank."""
    return bids.transform(op.Newest(10, by="auction", order={"price": "desc", "at": "asc"}, rank="rank"))


def q20(bids: DataFrame, auctions: DataFrame) -> DataFrame:
    """Expand bids: with their auction, if it is of category 10."""
    expanded = bids.transform(
        op.Enrich(auctions, on="auction", unmatched=None, time="at", table_time="opened_at")
    )
    return expanded.where("category = 10")


def q21(bids: DataFrame) -> DataFrame:
    """Channel ids: a number for each known channel, and for the others what the URL says."""
    known = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    cases = " ".join(f"WHEN '{channel}' THEN '{number}'" for channel, number in known.items())
    found = r"regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
    channel_id = F.expr(f"CASE lower(channel) {cases} ELSE nullif({found}, '') END")
    return bids.select("auction", "bidder", "price", "channel", channel_id.alias("channel_id")).dropna()


def q22(bids: DataFrame) -> DataFrame:
    """Directories: the first three parts of the path of the URL."""
    parts = F.split("url", "/")
    directories = [parts[number + 2].alias(f"dir{number}") for number in (1, 2, 3)]
    return bids.select("auction", "bidder", "price", "channel", *directories)


class Query(NamedTuple):
    function: Callable[..., DataFrame]
    key: tuple[str, ...] = ()
    """The primary key of the result as a table. Without one, every row of the result is added to it."""

    def __call__(self, streams: Mapping[str, DataFrame]) -> DataFrame:
        """The result on the streams that the parameters of the function name."""
        return self.function(*(streams[name] for name in inspect.signature(self.function).parameters))


QUERIES: Mapping[str, Query] = {
    "q0": Query(q0),
    "q1": Query(q1),
    "q2": Query(q2),
    "q3": Query(q3, key=("auction",)),
    "q4": Query(q4, key=("category",)),
    "q5": Query(q5, key=("window_end", "auction")),
    "q7": Query(q7),
    "q8": Query(q8, key=("window_start", "person")),
    "q9": Query(q9, key=("auction",)),
    "q11": Query(q11, key=("bidder", "window_start")),
    "q14": Query(q14),
    "q15": Query(q15, key=("window_start",)),
    "q16": Query(q16, key=("window_start", "channel")),
    "q17": Query(q17, key=("auction", "day")),
    "q18": Query(q18, key=("bidder", "auction")),
    "q19": Query(q19, key=("auction", "rank")),
    "q20": Query(q20),
    "q21": Query(q21),
    "q22": Query(q22),
}


def _statistics() -> dict[str, str]:
    aggregates = {"bids": "count(*)", "bidders": "distinct(bidder)", "auctions": "distinct(auction)"}
    for rank, condition in PRICE_RANKS.items():
        aggregates[f"bids_{rank}"] = f"count(IF({condition}, 1, NULL))"
        aggregates[f"bidders_{rank}"] = f"distinct(IF({condition}, bidder, NULL))"
        aggregates[f"auctions_{rank}"] = f"distinct(IF({condition}, auction, NULL))"
    return aggregates
