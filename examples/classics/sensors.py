"""Temperature sensors that may lose points, and how the result shows the loss.

python -m examples.classics.sensors

A sensor sends a reading each ten seconds. The mean of a minute says on how many of its six readings it rests.
"""

from __future__ import annotations

from examples.classics.stage import hour, stage
from headrace import operators as op

LOST = {("roof", "10:01:10"), ("roof", "10:01:20"), ("roof", "10:01:40"), ("roof", "10:01:50")}
READINGS = [
    {"sensor": sensor, "celsius": celsius + minute, "at": at}
    for minute in range(2)
    for second in range(0, 60, 10)
    for sensor, celsius in (("hall", 20.0), ("roof", 5.0))
    if (sensor, at := f"10:{minute:02}:{second:02}") not in LOST
]
LATER = [{"sensor": sensor, "celsius": 0.0, "at": "10:30:00"} for sensor in ("hall", "roof")]


def main() -> None:
    with stage("sensors") as on:
        on.send("readings", [*READINGS, *LATER])
        readings = on.read("readings", "sensor STRING, celsius DOUBLE, at TIMESTAMP")
        per_minute = readings.transform(
            op.Tumbling("1 minute", by="sensor", aggregate={"mean": "avg(celsius)", "share": "count(*) / 6"})
        )
        for row in on.run("per_minute", per_minute, ["window_start", "sensor"]):
            note = "" if row["share"] == 1 else f", of {row['share']:.0%} of the readings"
            print(f"{hour(row['window_start'])} {row['sensor']}: {row['mean']:.1f} °C{note}")


if __name__ == "__main__":
    main()
