"""Page views per user per hour.

python -m examples.classics.page_views
"""

from __future__ import annotations

from examples.classics.stage import hour, stage
from headrace import operators as op

VIEWS = [
    {"user": "ann", "page": "/", "at": "10:05:00"},
    {"user": "bob", "page": "/shop", "at": "10:20:00"},
    {"user": "ann", "page": "/shop", "at": "10:59:59"},
    {"user": "ann", "page": "/cart", "at": "11:00:00"},
    {"user": "ann", "page": "/help", "at": "10:58:00"},  # out of order, and in time
    {"user": "eve", "page": "/", "at": "13:00:00"},  # closes the hours before it
]


def main() -> None:
    with stage("page-views") as on:
        on.send("views", VIEWS)
        views = on.read("views", "user STRING, page STRING, at TIMESTAMP")
        per_hour = views.transform(
            op.Tumbling("1 hour", by="user", aggregate={"views": "count(*)", "pages": "distinct(page)"})
        )
        for row in on.run("per_hour", per_hour, ["window_start", "user"]):
            print(f"{hour(row['window_start'])} {row['user']}: {row['views']} views of {row['pages']} pages")


if __name__ == "__main__":
    main()
