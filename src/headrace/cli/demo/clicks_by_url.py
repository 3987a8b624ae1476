"""The job of `headrace run`, as a script for `headrace job run`: clicks by url in windows of ten seconds, into a table.

It tells the time when Spark is there and when the job is started, for whoever started it and wants to know where the
seconds went.
"""

from __future__ import annotations

import time

JOB = "clicks-by-url"
MILESTONE = "milestone"


def main() -> None:
    from pyspark.sql.functions import window

    from headrace.pipeline import Job, read_topic, session
    from headrace.pipeline.sinks import Table

    tell("Python")
    # Quick to start rather than quick for long: without the second compiler the JVM has half as much to do until then.
    spark = session("headrace-run", conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
    tell("Spark")
    clicks = read_topic(
        spark,
        "clicks",
        schema="user STRING, url STRING, at TIMESTAMP",
        event_time="at",
        watermark="10 seconds",
        # An hour is kept, and a job that did not run for longer goes on with what is there.
        options={"failOnDataLoss": "false"},
    )
    counts = clicks.groupBy(window("at", "10 seconds"), "url").count()
    counts = counts.selectExpr("window.start AS window_start", "url", "count AS clicks")
    Job(JOB, counts, Table("clicks_by_url", key=["window_start", "url"]), output_mode="update").start()
    tell("start of the job")


def tell(milestone: str) -> None:
    print(f"{MILESTONE} {time.time_ns() // 1_000_000} {milestone}", flush=True)


if __name__ == "__main__":
    main()
