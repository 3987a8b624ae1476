"""The same work in Flink SQL, from topics to a sink that discards. Records per second.

Runs in the environment of PyFlink, without Headrace: it is started by its path, and imports no module of Headrace.
One process with a mini cluster, a parallelism of two, and checkpoints every 10 seconds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment

PARALLELISM = 2
CHECKPOINT_INTERVAL = "10 s"
WARM_UP = "-warm-up"

COLUMNS = {
    "clicks": "`user` STRING, device STRING, `at` TIMESTAMP_LTZ(3), ms INT",
    "searches": "session STRING, `at` TIMESTAMP_LTZ(3), query STRING",
    "results": "session STRING, clicked_at TIMESTAMP_LTZ(3), url STRING",
    "profiles": "`user` STRING, changed_at TIMESTAMP_LTZ(3), country STRING, PRIMARY KEY (`user`) NOT ENFORCED",
}
TIMES = {"clicks": "`at`", "searches": "`at`", "results": "clicked_at", "profiles": "changed_at"}
WATERMARK = "INTERVAL '1' MINUTE"

# The name of each kind of work, the columns of its result, and the query. A sink accepts one event time, not two.
WORKS = {
    "flink-tumbling": (
        "`user` STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT",
        """SELECT `user`, window_start, window_end, COUNT(*)
           FROM TUMBLE(TABLE clicks, DESCRIPTOR(`at`), INTERVAL '1' MINUTE)
           GROUP BY `user`, window_start, window_end""",
    ),
    "flink-session": (
        "`user` STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT",
        """SELECT `user`, window_start, window_end, COUNT(*)
           FROM SESSION(TABLE clicks PARTITION BY `user`, DESCRIPTOR(`at`), INTERVAL '10' SECOND)
           GROUP BY `user`, window_start, window_end""",
    ),
    "flink-interval-join": (
        "session STRING, `at` TIMESTAMP_LTZ(3), query STRING, clicked_at TIMESTAMP_LTZ(3), url STRING",
        """SELECT s.session, s.`at`, s.query, CAST(r.clicked_at AS TIMESTAMP_LTZ(3)), r.url
           FROM searches AS s JOIN results AS r ON s.session = r.session
           AND r.clicked_at BETWEEN s.`at` - INTERVAL '30' SECOND AND s.`at` + INTERVAL '30' SECOND""",
    ),
    "flink-temporal-join": (
        "`user` STRING, device STRING, `at` TIMESTAMP_LTZ(3), ms INT, changed_at TIMESTAMP_LTZ(3), country STRING",
        """SELECT c.`user`, c.device, c.`at`, c.ms, CAST(p.changed_at AS TIMESTAMP_LTZ(3)), p.country
           FROM clicks AS c LEFT JOIN profiles FOR SYSTEM_TIME AS OF c.`at` AS p ON c.`user` = p.`user`""",
    ),
    "row-pattern": (
        "`user` STRING, since TIMESTAMP_LTZ(3), n BIGINT, b INT, c INT, until TIMESTAMP_LTZ(3)",
        """SELECT `user`, CAST(since AS TIMESTAMP_LTZ(3)), n, b, c, CAST(until AS TIMESTAMP_LTZ(3))
           FROM clicks MATCH_RECOGNIZE (
               PARTITION BY `user` ORDER BY `at`
               MEASURES A.`at` AS since, COUNT(B.ms) AS n, LAST(B.ms) AS b, C.ms AS c, C.`at` AS until
               ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
               PATTERN (A B+ C) WITHIN INTERVAL '10' MINUTE
               DEFINE A AS A.ms < 500, B AS B.ms >= 500 AND B.ms < 1500, C AS C.ms >= 1500)""",
    ),
}


def environment(folder: Path, jars: list[str]) -> TableEnvironment:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "pipeline.jars": ";".join(Path(jar).as_uri() for jar in jars),
        "pipeline.object-reuse": "true",
        "parallelism.default": str(PARALLELISM),
        "table.local-time-zone": "UTC",
        "execution.checkpointing.interval": CHECKPOINT_INTERVAL,
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
    }
    for name, value in settings.items():
        tables.get_config().set(name, value)
    return tables


def define_tables(tables: TableEnvironment, bootstrap: str, suffix: str, discarded: str) -> None:
    for name, columns in COLUMNS.items():
        is_upsert = name == "profiles"
        options = {
            "connector": "upsert-kafka" if is_upsert else "kafka",
            "topic": name + suffix,
            "properties.bootstrap.servers": bootstrap,
            "properties.group.id": f"flink-{name}{suffix}",
            "scan.bounded.mode": "latest-offset",
            **({"key.format": "raw", "value.format": "json"} if is_upsert else {"format": "json"}),
            **({} if is_upsert else {"scan.startup.mode": "earliest-offset"}),
            f"{'value.' if is_upsert else ''}json.timestamp-format.standard": "ISO-8601",
        }
        written = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        tables.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS {name}")
        tables.execute_sql(
            f"CREATE TEMPORARY TABLE {name} ({columns}, "
            f"WATERMARK FOR {TIMES[name]} AS {TIMES[name]} - {WATERMARK}) WITH ({written})"
        )
    tables.execute_sql("DROP TEMPORARY TABLE IF EXISTS discarded")
    tables.execute_sql(f"CREATE TEMPORARY TABLE discarded ({discarded}) WITH ('connector' = 'blackhole')")


def run_s(tables: TableEnvironment, bootstrap: str, work: str, suffix: str) -> float:
    """The duration of the job as Flink reports it, without the start of the mini cluster."""
    discarded, query = WORKS[work]
    define_tables(tables, bootstrap, suffix, discarded)
    client = tables.execute_sql(f"INSERT INTO discarded {query}").get_job_client()
    assert client is not None
    took_ms: int = client.get_job_execution_result().result().get_net_runtime()
    return took_ms / 1000


def main(arguments: dict[str, Any]) -> dict[str, float]:
    """`events` has the total number of events in the topics of each kind of work."""
    tables = environment(Path(arguments["folder"]), arguments["jars"])
    figures = {}
    for work, events in arguments["events"].items():
        run_s(tables, arguments["bootstrap"], work, WARM_UP)
        figures[work] = events / run_s(tables, arguments["bootstrap"], work, "")
    return figures


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
