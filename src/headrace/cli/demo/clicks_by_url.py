"""The job of `headrace run`, as a script for `headrace job run`: clicks by url in windows of ten seconds, into a table.
The views of the shop run beside it.

It prints when Spark is ready and when the job is started, so that `headrace run` can show how long each step took.
"""

from __future__ import annotations

import time
from pathlib import Path

JOB = "clicks-by-url"
MILESTONE = "milestone"
REQUEST_TIMEOUT_S = 30.0


def main() -> None:
    from pyspark.sql.functions import window

    from headrace.cli.demo.shop_views import start_views
    from headrace.kafka.cluster import Cluster
    from headrace.pipeline import Job, launch, read_topic, session
    from headrace.pipeline.sinks import Table

    milestone("Python")
    # Quick to start rather than fast later: without the second compiler the JVM starts with half the work.
    spark = session("headrace-run", conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
    milestone("Spark")
    clicks = read_topic(
        spark,
        "clicks",
        schema="user STRING, url STRING, at TIMESTAMP",
        event_time="at",
        watermark="10 seconds",
        # The topic keeps an hour; a job that did not run for longer continues with the oldest record.
        options={"failOnDataLoss": "false"},
    )
    counts = clicks.groupBy(window("at", "10 seconds"), "url").count()
    counts = counts.selectExpr("window.start AS window_start", "url", "count AS clicks")
    Job(JOB, counts, Table("clicks_by_url", key=["window_start", "url"]), output_mode="update").start()
    milestone("start of the job")
    launched = launch.current()
    if launched.data_dir is not None and launched.bootstrap is not None:
        start_views(spark, Cluster(launched.bootstrap, timeout_s=REQUEST_TIMEOUT_S), Path(launched.data_dir))


def milestone(name: str) -> None:
    print(f"{MILESTONE} {time.time_ns() // 1_000_000} {name}", flush=True)


if __name__ == "__main__":
    main()
