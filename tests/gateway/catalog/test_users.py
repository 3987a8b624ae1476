from __future__ import annotations

from headrace.gateway.catalog.jobs import Report
from headrace.gateway.catalog.model import User, UserKind
from headrace.gateway.catalog.users import Users, users_of


def users(topics: list[str], *reports: Report, **groups: list[str]) -> Users:
    return users_of(topics, groups=groups, queues={}, reports=reports, written={}, read={})


def test_groups_queues_and_jobs_read() -> None:
    found = users_of(
        ["orders", "logs-a"],
        groups={"billing": ["orders"], "headrace-job-sum": ["orders"]},
        queues={"mail": ["orders"]},
        reports=[Report(name="sum", sources=("topic orders", "topics logs-.")), Report(name="view.v.1")],
        written={},
        read={User(UserKind.ALERT, "errors"): ["logs-a"]},
    )
    assert found.readers["orders"] == [
        User(UserKind.GROUP, "billing"),
        User(UserKind.JOB, "sum"),
        User(UserKind.QUEUE, "mail"),
    ]
    assert found.readers["logs-a"] == [User(UserKind.ALERT, "errors"), User(UserKind.JOB, "sum")]


def test_jobs_captures_and_those_with_dead_letters_write() -> None:
    job = Report(name="clean", sources=("topic raw",), target="topic shop.clean")
    found = users(["headrace.cdc.shop", "shop", "shop.orders", "dlq.mail", "dlq.x"], job, mail=["orders"])
    capture = User(UserKind.CAPTURE, "shop")
    assert found.writers == {
        "shop": [capture],
        "shop.orders": [capture],
        "shop.clean": [User(UserKind.JOB, "clean")],
        "dlq.mail": [User(UserKind.GROUP, "mail")],
    }


def test_a_pattern_that_takes_long_or_is_unknown_matches_nothing() -> None:
    slow = Report(name="a", sources=("topics (a+)+$",))
    unknown = Report(name="b", sources=("topics a(?=b)", "topics ["))
    assert users(["a" * 200 + "b"], slow, unknown).readers == {}


def test_webhooks_read_and_write() -> None:
    found = users_of(
        [
            "orders",
            "mails",
            "pushes",
            "dlq.headrace-webhook-orders",
            "dlq.headrace-webhook-mails",
            "dlq.orders",
        ],
        groups={"headrace-webhook-orders": ["orders"]},
        queues={"headrace-webhook-mails": ["mails"]},
        reports=[],
        written={User(UserKind.WEBHOOK_IN, "github"): ["pushes", "dlq.pushes"]},
        read={},
    )
    orders, mails = User(UserKind.WEBHOOK_OUT, "orders"), User(UserKind.WEBHOOK_OUT, "mails")
    assert found.readers == {"orders": [orders], "mails": [mails]}
    assert found.writers == {
        "pushes": [User(UserKind.WEBHOOK_IN, "github")],
        "dlq.pushes": [User(UserKind.WEBHOOK_IN, "github")],
        "dlq.headrace-webhook-orders": [orders],
        "dlq.headrace-webhook-mails": [mails],
    }
