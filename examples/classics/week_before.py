"""Queries per second, averaged over five minutes, beside the same five minutes of the week before.

python -m examples.classics.week_before
"""

from __future__ import annotations

from examples.classics.stage import hour, stage
from headrace import operators as op

BEFORE = [{"query": "x", "at": f"2026-02-23T10:{minute:02}:00Z"} for minute in range(10) for _ in range(60)]
NOW = [
    {"query": "x", "at": f"2026-03-02T10:{minute:02}:00Z"}
    for minute in range(10)
    for _ in range(30 + 15 * minute)
]


def main() -> None:
    with stage("week-before") as on:
        on.send("queries", [*BEFORE, *NOW, {"query": "x", "at": "2026-03-02T12:00:00Z"}])
        queries = on.read("queries", "query STRING, at TIMESTAMP")
        load = queries.transform(op.Tumbling("5 minutes", aggregate={"per_s": "rate(*)"}))
        compared = load.transform(op.CompareWith("7 days", on=(), columns=["per_s"], within="1 day"))
        for row in on.run("load", compared, "window_start"):
            if row["per_s_before"] is not None:
                now, before = row["per_s"], row["per_s_before"]
                print(f"{hour(row['window_start'])}: {now:.2f} queries/s, {before:.2f} a week before")


if __name__ == "__main__":
    main()
