"""The same result batch and stream: a report of the topic as bounded rows, and of a job that continues.

python -m examples.classics.batch_and_stream
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from examples.classics.stage import stage
from headrace import operators as op

SALES = [
    {"shop": f"s{number % 2}", "euros": number, "at": f"1{number // 20}:{number % 20:02}:00"}
    for number in range(40)
]
LATER = [{"shop": "s0", "euros": 0, "at": "15:00:00"}]
SCHEMA = "shop STRING, euros INT, at TIMESTAMP"
COLUMNS = ["shop", "window_start", "euros", "largest"]


def report(sales: DataFrame) -> DataFrame:
    return sales.transform(
        op.Tumbling("1 hour", by="shop", aggregate={"euros": "sum(euros)", "largest": "max(euros)"})
    )


def main() -> None:
    with stage("batch-and-stream") as on:
        for half in (SALES[:20], SALES[20:] + LATER):
            on.send("sales", half)
            streamed = on.run("report", report(on.read("sales", SCHEMA)), ["window_start", "shop"])
        at_once = report(on.read("sales", SCHEMA, bounded=True)).where(
            "window_start < TIMESTAMP '2026-03-02 15:00:00'"
        )
        rows = at_once.orderBy("window_start", "shop").selectExpr(
            "shop", "date_format(window_start, 'HH') AS hour", "euros", "largest"
        )
        batch = [tuple(row) for row in rows.collect()]
        for shop, hour, euros, largest in batch:
            print(f"{hour}h {shop}: {euros} euros, the largest sale {largest}")
        stream = [(row["shop"], row["window_start"][11:13], row["euros"], row["largest"]) for row in streamed]
        print("the stream has the same rows" if stream == batch else f"the stream differs: {stream}")


if __name__ == "__main__":
    main()
