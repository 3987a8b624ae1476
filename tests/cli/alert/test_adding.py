"""`headrace alert add`: options, files, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.alerts.catalog import Alerts
from tests.cli.conftest import Headrace
from tests.cli.typed_json import json_problems

TO = ("--to", "https://ann:secret@ops.example/hook?token=secret#whsec_c2VjcmV0c2VjcmV0c2VjcmV0")


def test_definition_has_every_option(headrace: Headrace, numbers: str, tmp_path: Path) -> None:
    (tmp_path / "body.html").write_text("<p>{{ key.service }}</p>")
    folder = ("--data-dir", str(tmp_path / "data"))
    out = headrace(
        *(
            "alert",
            "add",
            "errors",
            "--topic",
            numbers,
            "--when",
            "level = 'ERROR'",
            "--per",
            "service",
            *TO,
            *folder,
        ),
        *("--for", "2m", "--at-least", "5", "--within", "1m", "--resolve-when", "level = 'OK'"),
        *(
            "--value-format",
            "registry",
            "--resolve-after",
            "5m",
            "--group-by",
            "team",
            "--group-wait",
            "30s",
            "--cool-down",
            "30m",
        ),
        *(
            "--repeat",
            "4h",
            "--escalate-after",
            "15m",
            "--escalate-to",
            "mailto://127.0.0.1?to=boss@example.com",
        ),
        *(
            "--template-title",
            "{{ alert }}",
            "--template-file",
            str(tmp_path / "body.html"),
            "--format",
            "json",
        ),
    ).out
    assert json_problems("alert add", out) == []
    assert "secret" not in out
    assert headrace("alert", "show", "errors", "--format", "json", *folder).out == out
    alert = Alerts(tmp_path / "data").get("errors")
    assert (alert.rule.for_ms, alert.rule.at_least, alert.rule.within_ms) == (120_000, 5, 60_000)
    assert (alert.rule.resolve_after_ms, alert.rule.has_resolve_when) == (300_000, True)
    assert (alert.notify.cool_down_ms, alert.notify.repeat_ms) == (1_800_000, 14_400_000)
    assert alert.templates.html == "<p>{{ key.service }}</p>"
    assert alert.start == {"0": 10, "1": 0}
    assert alert.value_format == "registry"
    assert json.loads(out)["to"] == ["https://ops.example/hook"]


def test_earliest_counts_every_record(headrace: Headrace, numbers: str, tmp_path: Path) -> None:
    folder = ("--data-dir", str(tmp_path))
    headrace("alert", "add", "a", "--topic", numbers, "--when", "x > 1", *TO, "--from", "earliest", *folder)
    assert Alerts(tmp_path).get("a").start == {"0": 0, "1": 0}


def test_addresses_are_read_from_a_file(headrace: Headrace, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "addresses.txt"
    file.write_text("# ops\n\nhttps://one.example\nhttps://two.example\n")
    folder = ("--data-dir", str(tmp_path))
    also = ("--escalate-after", "5m", "--escalate-to-file", str(file))
    headrace("alert", "add", "a", "--topic", topic, "--when", "x > 1", "--to-file", str(file), *folder, *also)
    assert [each.address for each in Alerts(tmp_path).get("a").to] == [
        "https://one.example",
        "https://two.example",
    ]
    assert len(Alerts(tmp_path).get("a").escalate_to) == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--when", "level ="), "condition"),
        (("--when", "x > 1", "--at-least", "5"), "--within"),
        (("--when", "x > 1", "--for", "soon"), "duration"),
        (("--when", "x > 1", "--template-body", "{{ nothing.here }}"), "template failed"),
        (("--when", "x > 1", "--template-file", "missing.txt"), "missing.txt"),
        (("--when", "x > 1", "--escalate-after", "5m"), "--escalate-to"),
        (("--when", "x > 1", "--to", "carrier-pigeon://loft"), "apprise does not know"),
        (("--when", "x > 1", "--to-file", "/dev/null"), "0 addresses"),
        ((), "no condition"),
    ],
    ids=str,
)
def test_mistake_is_an_error_and_adds_nothing(
    headrace: Headrace, topic: str, tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    ran = headrace(
        "alert", "add", "a", "--topic", topic, *TO, *arguments, "--data-dir", str(tmp_path), code=1
    )
    assert problem in ran.err
    assert "hint:" in ran.err
    assert Alerts(tmp_path).names() == []


def test_wrong_start_is_wrong_usage(headrace: Headrace, topic: str) -> None:
    headrace("alert", "add", "a", "--topic", topic, "--when", "x > 1", *TO, "--from", "yesterday", code=2)


def test_records_of_a_transaction_that_is_open_count(
    headrace: Headrace, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"{}", partition=0)
    assert producer.flush(60) == 0
    folder = ("--data-dir", str(tmp_path))
    headrace("alert", "add", "a", "--topic", topic, "--when", "x > 1", *TO, *folder)
    producer.commit_transaction(60)
    assert Alerts(tmp_path).get("a").start == {"0": 0, "1": 0}
