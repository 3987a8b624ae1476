"""A production line: machines that stop sending heartbeats, and parts that skip a step.

python -m examples.classics.production_line

`Absence` emits a heartbeat that no other followed in time. A row pattern finds parts that were packed without a test.
"""

from __future__ import annotations

from examples.classics.stage import stage
from headrace import operators as op

BEATS = [
    ("press", "10:00:00"),
    ("saw", "10:00:10"),
    ("press", "10:00:20"),
    ("saw", "10:00:35"),
    ("press", "10:01:30"),
    ("saw", "10:30:00"),
]
STEPS = [
    ("part-1", "10:00:00", "cut"),
    ("part-2", "10:00:30", "cut"),
    ("part-1", "10:01:00", "test"),
    ("part-1", "10:02:00", "pack"),
    ("part-2", "10:02:30", "pack"),
    ("part-3", "11:30:00", "cut"),
]


def main() -> None:
    with stage("production-line") as on:
        on.send("beats", [{"machine": machine, "at": at} for machine, at in BEATS])
        beats = on.read("beats", "machine STRING, at TIMESTAMP").select("machine", "at")
        silent = beats.transform(op.Absence(on="machine", within="30 seconds"))
        for row in on.run("silent", silent, ["machine", "at"]):
            print(f"{row['machine']}: no heartbeat within 30 seconds of {row['at'][11:19]}")

        on.send("steps", [{"part": part, "at": at, "step": step} for part, at, step in STEPS])
        steps = on.read("steps", "part STRING, at TIMESTAMP, step STRING")
        cut, other = op.RowPattern("cut", "step = 'cut'"), op.RowPattern("other", "step <> 'test'")
        pack = op.RowPattern("pack", "step = 'pack'")
        untested = (cut + other.times(0, None, reluctant=True) + pack).match(
            partition_by="part",
            order_by="at",
            within="1 hour",
            measures={"cut_at": "cut.at", "at": "pack.at"},
        )
        for row in on.run("untested", steps.transform(untested), "part"):
            print(
                f"{row['part']}: cut at {row['cut_at'][11:16]}, packed at {row['at'][11:16]} without a test"
            )


if __name__ == "__main__":
    main()
