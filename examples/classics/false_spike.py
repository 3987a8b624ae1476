"""The false spike after a restart: windows by processing time show it, windows by event time do not.

python -m examples.classics.false_spike

A request came each minute. The job was stopped for an hour, and then read everything at once.
"""

from __future__ import annotations

from examples.classics.stage import hour, stage
from headrace import operators as op
from headrace.pipeline import read_topic

REQUESTS = [{"path": "/", "at": f"10:{minute:02}:00"} for minute in range(60)]


def main() -> None:
    with stage("false-spike") as on:
        on.send("requests", REQUESTS)
        on.send("requests", [{"path": "/", "at": "12:00:00"}])
        requests = on.read("requests", "path STRING, at TIMESTAMP")
        by_event = requests.transform(op.Tumbling("10 minutes", aggregate={"n": "count(*)"}))
        untimed = read_topic(on.spark, "requests", schema="path STRING, at TIMESTAMP")
        by_arrival = untimed.transform(
            op.Tumbling(
                "10 minutes",
                time=op.PROCESSING_TIME,
                aggregate={"n": "count(*)"},
                trigger=op.Trigger(early=1),
            )
        )
        print("by processing time:")
        arrived = on.run("by_arrival", by_arrival, "window_start")
        print(f"  {max(row['n'] for row in arrived)} requests in ten minutes, a spike that never was")
        print("by event time:")
        for row in on.run("by_event", by_event, "window_start"):
            print(f"  {hour(row['window_start'])}: {row['n']} requests")


if __name__ == "__main__":
    main()
