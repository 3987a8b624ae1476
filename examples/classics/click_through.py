"""Ad impressions joined with their clicks, and the click-through rate per URL.

python -m examples.classics.click_through

An impression without a click counts, too: it is emitted when an hour has passed without one.
"""

from __future__ import annotations

from examples.classics.stage import stage
from headrace import operators as op

IMPRESSIONS = [
    {"id": number, "url": "/a" if number % 2 else "/b", "at": f"10:0{number}:00"} for number in range(6)
]
CLICKS = [
    {"id": 1, "at": "10:01:30"},
    {"id": 3, "at": "10:40:00"},
    {"id": 4, "at": "11:30:00"},  # more than an hour later: not a click on this impression
]
LATER = [{"id": 100, "url": "/c", "at": "14:00:00"}]


def main() -> None:
    with stage("click-through") as on:
        on.send("impressions", IMPRESSIONS)
        on.send("clicks", CLICKS)
        impressions = on.read("impressions", "id INT, url STRING, at TIMESTAMP")
        clicks = on.read("clicks", "id INT, at TIMESTAMP")
        joined = impressions.transform(op.JoinWithin(clicks, on="id", after="1 hour", unmatched="left"))
        rows = joined.selectExpr("id", "url", "at_right IS NOT NULL AS is_clicked")
        on.run("shown", rows, "id")
        on.send("impressions", LATER)
        on.send("clicks", LATER)
        # A table that is kept current can be asked for anything, as any other table.
        rates: dict[str, list[int]] = {}
        for row in on.run("shown", rows, "id"):
            rates.setdefault(row["url"], []).append(row["is_clicked"])
        for url, clicked in sorted(rates.items()):
            print(f"{url}: {sum(clicked)} of {len(clicked)} impressions were clicked")


if __name__ == "__main__":
    main()
