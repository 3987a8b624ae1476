"""The view of a job posting, consumed by recommendation, security, analytics and warehouse.

python -m examples.classics.job_postings

The page that shows a posting writes one event. Each system reads the topic at its own pace, and none knows another.
"""

from __future__ import annotations

import json
from collections import Counter

from confluent_kafka import Consumer

from examples.classics.stage import stage
from headrace import operators as op
from headrace.pipeline import Job
from headrace.pipeline.sinks import Delta

VIEWS = [
    *[{"user": f"u{number % 3}", "posting": number % 2, "at": f"10:{number:02}:00"} for number in range(9)],
    *[{"user": "scraper", "posting": number % 2, "at": f"10:09:{number:02}"} for number in range(20)],
    {"user": "u0", "posting": 0, "at": "12:00:00"},
]


def consumed(bootstrap: str, group: str) -> list[dict[str, object]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["posting-views"])
    views = []
    while len(views) < len(VIEWS):
        message = consumer.poll(30)
        assert message is not None
        views.append(json.loads(message.value() or b""))
    consumer.close()
    return views


def main() -> None:
    with stage("job-postings") as on:
        on.send("posting-views", VIEWS)

        seen: dict[object, set[object]] = {}
        for view in consumed(on.bootstrap, "recommendation"):
            seen.setdefault(view["user"], set()).add(view["posting"])
        print(f"recommendation: u1 has seen {sorted(map(str, seen['u1']))}")

        users = Counter(view["user"] for view in consumed(on.bootstrap, "security"))
        print(f"security: {users.most_common(1)[0][0]} views too many postings")

        views = on.read("posting-views", "user STRING, posting INT, at TIMESTAMP")
        per_hour = views.transform(op.Tumbling("1 hour", by="posting", aggregate={"views": "count(*)"}))
        for row in on.run("per_hour", per_hour, "posting"):
            print(f"analytics: posting {row['posting']} has {row['views']} views")

        warehouse = Delta("views", at=on.folder / "warehouse")
        Job("warehouse", views, warehouse, mode="batch").start().wait()
        print(f"warehouse: {warehouse.table().to_pyarrow_dataset().count_rows()} rows")


if __name__ == "__main__":
    main()
