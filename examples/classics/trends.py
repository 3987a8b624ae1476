"""Trending topics, and the URLs that people search for: the most frequent values of the last hour, every half hour.

python -m examples.classics.trends
"""

from __future__ import annotations

import json

from examples.classics.stage import hour, stage
from headrace import operators as op

SEARCHES = [
    *[{"topic": "election", "url": "news.example", "at": f"10:{minute:02}:00"} for minute in (1, 5, 9, 14)],
    *[{"topic": "weather", "url": "rain.example", "at": f"10:{minute:02}:00"} for minute in (2, 35, 40)],
    *[
        {"topic": "football", "url": "goal.example", "at": f"10:{minute:02}:00"}
        for minute in (36, 37, 38, 39)
    ],
    {"topic": "football", "url": "news.example", "at": "10:50:00"},
    {"topic": "-", "url": "-", "at": "12:30:00"},
]


def main() -> None:
    with stage("trends") as on:
        on.send("searches", sorted(SEARCHES, key=lambda search: search["at"]))
        searches = on.read("searches", "topic STRING, url STRING, at TIMESTAMP")
        trends = searches.transform(
            op.Hopping(
                "1 hour",
                every="30 minutes",
                aggregate={"topics": "top(topic, 2)", "urls": "top(url, 2)"},
            )
        )
        for row in on.run("trends", trends, "window_start"):
            topics, urls = (
                ", ".join(f"{found['value']} {found['count']}" for found in json.loads(row[name]))
                for name in ("topics", "urls")
            )
            print(f"{hour(row['window_start'])} to {hour(row['window_end'])}: {topics}; {urls}")


if __name__ == "__main__":
    main()
