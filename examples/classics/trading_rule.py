"""A rule for trading: a price that falls three times or more, and then recovers half of the fall.

python -m examples.classics.trading_rule

All rows of each match are shown, with the part of the pattern that each one is.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from headrace import operators as op
from headrace.pipeline import session

PRICES = [100, 98, 95, 90, 92, 96, 97, 97, 99, 94]


def main() -> None:
    spark = session("trading")
    ticks = spark.createDataFrame(
        [("ACME", minute, price) for minute, price in enumerate(PRICES)],
        "symbol STRING, minute INT, price INT",
    ).withColumn("at", F.timestamp_seconds(F.lit(1_772_359_200) + F.col("minute") * 60))
    matched = ticks.transform(
        op.MatchRecognize("""
            PARTITION BY symbol ORDER BY at
            MEASURES CLASSIFIER() AS phase, top.price - FINAL LAST(fall.price) AS fell
            ALL ROWS PER MATCH
            PATTERN (top fall{3,} rise*? back) WITHIN INTERVAL '1' HOUR
            DEFINE
                fall AS price < PREV(price),
                rise AS price > PREV(price),
                back AS price >= LAST(fall.price) + (top.price - LAST(fall.price)) / 2""")
    )
    for row in matched.orderBy("at").collect():
        print(f"{row.symbol} minute {row.minute}: {row.price} {row.phase}")
    print(f"the price fell by {matched.first().fell}")
    spark.stop()


if __name__ == "__main__":
    main()
