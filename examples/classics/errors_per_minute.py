"""Lines of a web server's log to errors per minute.

python -m examples.classics.errors_per_minute

A line of another format is not lost: it is in a table of its own.
"""

from __future__ import annotations

from examples.classics.stage import hour, stage
from headrace import operators as op
from headrace.pipeline import read_topic

LINES = [
    '10.0.0.1 - - [02/Mar/2026:10:00:05 +0000] "GET / HTTP/1.1" 200 512',
    '10.0.0.2 - - [02/Mar/2026:10:00:20 +0000] "GET /cart HTTP/1.1" 500 31',
    '10.0.0.1 - - [02/Mar/2026:10:00:41 +0000] "POST /pay HTTP/1.1" 503 0',
    "segmentation fault",
    '10.0.0.3 - - [02/Mar/2026:10:01:02 +0000] "GET / HTTP/1.1" 200 512',
    '10.0.0.3 - - [02/Mar/2026:10:05:00 +0000] "GET / HTTP/1.1" 200 512',
]
LINE = r'^(\\S+) \\S+ \\S+ \\[([^\\]]+)\\] "(\\S+) (\\S+)[^"]*" (\\d{3}) (\\d+)$'


def main() -> None:
    with stage("errors-per-minute") as on:
        on.send("access-log", LINES)
        lines = read_topic(on.spark, "access-log", format="text")
        parsed = lines.selectExpr(
            f"try_to_timestamp(regexp_extract(value, '{LINE}', 2), 'dd/MMM/yyyy:HH:mm:ss Z') AS at",
            f"try_cast(regexp_extract(value, '{LINE}', 5) AS INT) AS status",
            "value",
            "_offset",
        )
        per_minute = (
            parsed.where("at IS NOT NULL")
            .withWatermark("at", "1 minute")
            .transform(
                op.Tumbling(
                    "1 minute",
                    aggregate={"lines": "count(*)", "errors": "count(*) filter (where status >= 500)"},
                )
            )
        )
        for row in on.run("per_minute", per_minute, "window_start"):
            print(f"{hour(row['window_start'])}: {row['errors']} errors in {row['lines']} lines")
        for row in on.run("unread", parsed.where("at IS NULL").select("_offset", "value"), "_offset"):
            print(f"line {row['_offset']} is not of the format: {row['value']}")


if __name__ == "__main__":
    main()
