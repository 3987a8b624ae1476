"""A rule for trading: a price that falls three times or more, and then recovers half of the fall.

python -m examples.classics.trading_rule

All rows of each match are shown, with the part of the pattern that each one is.
"""

from __future__ import annotations

from examples.classics.stage import stage
from headrace import operators as op

PRICES = [100, 98, 95, 90, 92, 96, 97, 97, 99, 94]
TICKS = [
    {"symbol": "ACME", "price": price, "at": f"10:{minute:02}:00"} for minute, price in enumerate(PRICES)
]
LATER = [{"symbol": "OTHER", "price": 1, "at": "12:00:00"}]


def main() -> None:
    with stage("trading") as on:
        on.send("ticks", [*TICKS, *LATER])
        ticks = on.read("ticks", "symbol STRING, price INT, at TIMESTAMP").select("symbol", "price", "at")
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
        rows = on.run("matched", matched, ["symbol", "at"])
        for row in rows:
            print(f"{row['symbol']} {row['at'][11:16]}: {row['price']} {row['phase']}")
        print(f"the price fell by {rows[0]['fell']}")


if __name__ == "__main__":
    main()
