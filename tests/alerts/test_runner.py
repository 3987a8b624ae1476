"""Alerts from a topic to people, with a real broker and a real mail server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.alerts import runner
from headrace.alerts.catalog import Acknowledgement, Alerts
from headrace.alerts.definition import Target
from headrace.alerts.errors import AlertsFenced, BadAlert
from headrace.alerts.key_state import Rule
from headrace.alerts.notifying import NotifyRule
from headrace.alerts.runner import AlertsRun
from headrace.alerts.silences import Silence
from headrace.alerts.targets import mail as mail_module
from headrace.clock import SystemClock
from headrace.kafka.cluster import Partition
from headrace.registered.client import RegistryClient
from headrace.registered.serde import RecordReader, record_writer
from headrace.schemas.definition import Definition, SchemaType
from tests.alerts.conftest import Ahead, Lab, wait_until
from tests.alerts.servers import HttpServer, MailServer
from tests.faults.broker_process import BrokerProcess
from tests.gateway.registry.serving import running_registry

HOUR_MS = 3_600_000


def test_key_that_fires_is_mailed_and_resolved_once(lab: Lab, mail: MailServer) -> None:
    lab.topic()
    lab.add("errors", mail.address())
    with lab.running():
        lab.write({"level": "ERROR", "service": "checkout"})
        mail.wait_for(lambda mails: len(mails) == 1)
        wait_until(lambda: lab.events().count("delivered") == 1)  # it is marked after the server has it
        lab.write({"level": "INFO", "service": "search"}, {"level": "INFO", "service": "checkout"})
        mail.wait_for(lambda mails: len(mails) == 2)
        wait_until(lambda: lab.events().count("delivered") == 2)
    assert lab.failure is None
    assert mail.subjects == ["errors fires: service=checkout", "errors resolved: service=checkout"]
    assert len(set(mail.ids)) == 2
    assert lab.events() == ["firing", "notifying", "delivered", "resolved", "notifying", "delivered"]
    assert lab.stored().waiting == {}


def test_alerts_that_are_added_and_removed_while_they_run_count(lab: Lab, mail: MailServer) -> None:
    lab.topic()
    with lab.running():
        lab.write({"level": "ERROR", "service": "before"})
        lab.add("errors", mail.address(), start={"0": 1})
        lab.write({"level": "ERROR", "service": "after"})
        mail.wait_for(lambda mails: len(mails) == 1)
        lab.alerts.remove("errors")
        wait_until(lambda: lab.stored().alerts == {})
    assert mail.subjects == ["errors fires: service=after"]
    assert lab.events()[-1] == "removed"


def test_alert_that_was_removed_while_nothing_ran_is_deleted_from_the_log(lab: Lab, mail: MailServer) -> None:
    lab.topic()
    lab.add("errors", mail.address())
    with lab.running():
        lab.write({"level": "ERROR", "service": "a"})
        mail.wait_for(lambda mails: len(mails) == 1)
    lab.alerts.remove("errors")
    lab.add("errors", mail.address(), start={"0": 0})
    with lab.running():
        mail.wait_for(lambda mails: len(mails) == 2)
        wait_until(lambda: lab.stored().waiting == {})
    assert [event for event in lab.events() if event in ("firing", "removed")] == [
        "firing",
        "removed",
        "firing",
    ]


def test_topic_that_is_created_later_is_read_from_its_first_record(
    lab: Lab, mail: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PARTITIONS_S", 0.1)
    lab.add("errors", mail.address())
    with lab.running():
        lab.topic(partitions=3)
        lab.write(*({"level": "ERROR", "service": str(number)} for number in range(9)))
        mail.wait_for(lambda mails: sum(str(each.get_content()).count("service=") for each in mails) == 9)


def test_alerts_on_one_topic_have_positions_of_their_own(lab: Lab, mail: MailServer) -> None:
    lab.topic()
    lab.write(*({"level": "ERROR", "service": str(number)} for number in range(4)))
    lab.add("late", mail.address(), start={"0": 3})
    lab.add("early", mail.address(), start={"0": 1})
    with lab.running():
        lab.write({"level": "INFO", "service": "3"})
        wait_until(lambda: "resolved" in lab.events("early") and "resolved" in lab.events("late"))
    assert (lab.events("early").count("firing"), lab.events("late").count("firing")) == (3, 1)


def test_silence_holds_messages_until_it_is_removed(lab: Lab, mail: MailServer) -> None:
    lab.topic()
    lab.add("errors", mail.address())
    now_ms = SystemClock().now_ms()
    lab.alerts.add_silence(Silence(id="s", start_ms=now_ms, end_ms=now_ms + 3_600_000, key={"service": "a"}))
    with lab.running():
        lab.write({"level": "ERROR", "service": "a"}, {"level": "ERROR", "service": "b"})
        mail.wait_for(lambda mails: len(mails) == 1)
        wait_until(lambda: "silenced" in lab.events())
        assert mail.subjects == ["errors fires: service=b"]
        lab.alerts.remove_silence("s")
        mail.wait_for(lambda mails: len(mails) == 2)
    assert mail.subjects[1] == "errors fires: service=a"


def test_escalation_goes_to_others_unless_it_is_acknowledged(
    lab: Lab, mail: MailServer, http: HttpServer
) -> None:
    lab.topic()
    lab.add(
        "errors",
        mail.address(),
        notify=NotifyRule(group_wait_ms=0, group_interval_ms=0, escalate_after_ms=HOUR_MS),
        escalate_to=(Target(id="boss", address=http.url),),
    )
    clock = Ahead()
    with lab.running(clock=clock):
        lab.write({"level": "ERROR", "service": "a"}, {"level": "ERROR", "service": "b"})
        mail.wait_for(lambda mails: sum(str(each.get_content()).count("service=") for each in mails) == 2)
        lab.alerts.request(
            Acknowledgement(
                id="r", alert="errors", at_ms=SystemClock().now_ms(), key={"service": "b"}, by="ann"
            )
        )
        wait_until(lambda: lab.alerts.requests() == [])
        clock.ahead_ms = HOUR_MS
        http.wait_for(1)
        lab.write({"level": "INFO", "service": "a"}, {"level": "INFO", "service": "b"})
        http.wait_for(2)
        wait_until(lambda: lab.stored().waiting == {})
    escalated, resolved = http.bodies()
    assert (escalated["type"], [each["key"] for each in escalated["data"]["firing"]]) == (
        "alert.escalation",
        [{"service": "a"}],
    )
    assert (resolved["type"], [each["key"] for each in resolved["data"]["resolved"]]) == (
        "alert.resolved",
        [{"service": "a"}],
    )
    assert [each.by for each in lab.history() if each.event == "acknowledged"] == ["ann"]


def test_dead_target_delays_no_other_and_ends_as_a_dead_letter(
    lab: Lab, mail: MailServer, http: HttpServer
) -> None:
    lab.topic()
    http.statuses += [503] * 1_000
    lab.add(
        "errors", "mailto://127.0.0.1:1?to=eve@example.com", http.url, mail.address(), retry_for_ms=HOUR_MS
    )
    clock = Ahead()
    with lab.running(clock=clock):
        lab.write({"level": "ERROR", "service": "a"})
        mail.wait_for(lambda mails: len(mails) == 1)
        wait_until(lambda: lab.events().count("retrying") > 2)
        clock.ahead_ms = HOUR_MS
        wait_until(lambda: lab.events().count("dead") == 2)
        wait_until(lambda: lab.stored().waiting == {})
    dead = {each.target: each for each in lab.history() if each.event == "dead"}
    assert sorted(dead) == sorted([http.url, "mailto:eve@example.com"])
    assert dead[http.url].reason == f"{http.url} responds 503"
    assert "service=a" in dead[http.url].text
    counts = lab.stored().alerts["errors"].book
    assert counts is not None
    assert (counts.counts.delivered, counts.counts.dead) == (1, 2)


def test_storm_is_few_messages_that_count_all_keys(lab: Lab, mail: MailServer) -> None:
    lab.topic()
    notify = NotifyRule(group_wait_ms=500, group_interval_ms=500)
    lab.add("errors", mail.address(), notify=notify)
    with lab.running():
        lab.write(*({"level": "ERROR", "service": f"s{number}"} for number in range(5_000)))
        wait_until(
            lambda: (
                sum(each.firing_count or 0 for each in lab.history() if each.event == "notifying") == 5_000
            )
        )
        wait_until(lambda: lab.stored().waiting == {})
    assert 1 <= len(mail.mails) <= 20
    assert all(len(str(each.get_content())) < 20_000 for each in mail.mails)


def test_broker_that_is_killed_and_restarted_loses_and_doubles_nothing(
    tmp_path: Path, mail: MailServer
) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        lab = Lab(broker.bootstrap, tmp_path / "data")
        lab.topic()
        lab.add("errors", mail.address())
        with lab.running():
            for level in ("ERROR", "INFO", "ERROR", "INFO"):
                lab.write({"level": level, "service": "a"})
                broker.kill()  # before, while or after the message is decided, sent and marked
                broker.start()
                wait_until(lambda: mail.subjects[-1:] == [subject_of(level)])  # noqa: B023
            wait_until(lambda: lab.stored().waiting == {})
    assert lab.failure is None
    assert [*dict.fromkeys(mail.ids)] == mail.ids
    assert mail.subjects == [subject_of(level) for level in ("ERROR", "INFO", "ERROR", "INFO")]


def subject_of(level: str) -> str:
    return f"errors {'fires' if level == 'ERROR' else 'resolved'}: service=a"


def test_second_process_with_another_folder_fences_the_first(lab: Lab, tmp_path: Path) -> None:
    lab.topic()
    other = Lab(lab.bootstrap, tmp_path / "other")
    with lab.running(), other.running():
        lab.add("errors", "mailto://127.0.0.1:1?to=a@example.com")
        wait_until(lambda: lab.failure is not None)
    assert isinstance(lab.failure, AlertsFenced)
    assert str(tmp_path / "other") in str(lab.failure)
    assert other.failure is None


def test_second_process_with_the_same_folder_does_not_start(lab: Lab) -> None:
    with lab.running(), pytest.raises(BadAlert, match="run already"):
        AlertsRun(Alerts(lab.folder), lab.cluster, is_stopping=lambda: True).run()
    assert lab.failure is None


def test_records_that_retention_deleted_are_counted(lab: Lab, mail: MailServer) -> None:
    lab.topic()
    lab.write(*({"level": "ERROR", "service": str(number)} for number in range(4)))
    lab.add("errors", mail.address(), start={"0": 1})
    lab.cluster.delete_records({Partition("logs", 0): 3})
    with lab.running():
        mail.wait_for(lambda mails: len(mails) == 1)
        wait_until(lambda: "delivered" in lab.events())
    assert [each.reason for each in lab.history() if each.event == "missed"] == [
        "logs-0: 2 records were deleted before they were read"
    ]
    assert mail.subjects == ["errors fires: service=3"]


def test_topic_that_was_created_again_is_read_from_its_first_record(lab: Lab, mail: MailServer) -> None:
    lab.topic()
    lab.write(*({"level": "INFO", "service": str(number)} for number in range(10)))
    lab.add("errors", mail.address(), start={"0": 10})
    lab.cluster.delete_topics(["logs"])
    wait_until(lambda: "logs" not in lab.cluster.topics())
    lab.topic()
    lab.write({"level": "ERROR", "service": "new"})
    with lab.running():
        mail.wait_for(lambda mails: len(mails) == 1)
    assert mail.subjects == ["errors fires: service=new"]


ORDER = {
    "type": "record",
    "name": "O",
    "fields": [{"name": each, "type": "string"} for each in ("level", "service")],
}


def test_records_of_a_registered_schema_are_judged_and_one_without_is_unreadable(
    lab: Lab, mail: MailServer
) -> None:
    lab.topic()
    lab.add("errors", mail.address(), value_format="registry")
    lab.add("plain", mail.address())
    with running_registry(lab.bootstrap) as url:
        client = RegistryClient(url)
        client.register("logs-value", Definition(text=json.dumps(ORDER), type=SchemaType.AVRO, references=()))
        write = record_writer(client.version("logs-value"))
        with lab.running(to_json=RecordReader(client).to_json):
            lab.write_bytes(b"no schema", write(b'{"level": "ERROR", "service": "a"}'))
            mail.wait_for(lambda mails: len(mails) == 1)
            lab.write_bytes(write(b'{"level": "INFO", "service": "a"}'))
            mail.wait_for(lambda mails: len(mails) == 2)
            wait_until(lambda: lab.stored().waiting == {})
    assert mail.subjects == ["errors fires: service=a", "errors resolved: service=a"]
    (unreadable,) = [each for each in lab.history() if each.event == "unreadable"]
    assert unreadable.reason.startswith("logs-0@0: ")
    assert lab.events("plain").count("unreadable") == 3


def test_alerts_wait_for_a_registry_that_is_unavailable(lab: Lab, mail: MailServer) -> None:
    lab.topic()
    lab.add("errors", mail.address(), value_format="registry")
    failed: list[bytes] = []

    def to_json(value: bytes) -> bytes:
        if len(failed) < 2:
            failed.append(value)
            RegistryClient("http://127.0.0.1:1", timeout_s=1).by_id(1)
        return value

    with lab.running(to_json=to_json):
        lab.write({"level": "ERROR", "service": "a"}, {"level": "ERROR", "service": "b"})
        mail.wait_for(lambda _: counted_keys(mail) == {"a", "b"})
        wait_until(lambda: lab.stored().waiting == {})
    assert len(failed) == 2
    assert lab.failure is None
    assert lab.events().count("firing") == 2
    assert "unreadable" not in lab.events()


def counted_keys(mail: MailServer) -> set[str]:
    text = "".join(str(each.get_content()) for each in mail.mails)
    return {each for each in ("a", "b") if f"service={each}:" in text}


def test_definition_that_is_damaged_stops_no_other(lab: Lab, mail: MailServer) -> None:
    lab.topic()
    lab.add("errors", mail.address())
    lab.add("broken", mail.address())
    lab.alerts.get_path("broken").write_text("{")
    with lab.running():
        lab.write({"level": "ERROR", "service": "a"})
        mail.wait_for(lambda mails: len(mails) == 1)
    assert mail.subjects == ["errors fires: service=a"]


def test_absent_key_fires_after_the_records_were_read(lab: Lab, mail: MailServer) -> None:
    """A backlog has no gaps: its times are those of its records."""
    lab.topic()
    now_ms = SystemClock().now_ms()
    for age_s in (5_000, 4_000, 3_000, 2_000, 1_000, 0):
        lab.write({"service": "a"}, at_ms=now_ms - age_s * 1_000)
    lab.add("quiet", mail.address(), when="", rule=Rule(absent_for_ms=1_200_000), start={"0": 0})
    lab.add("quick", mail.address(), when="", rule=Rule(absent_for_ms=1_000), start={"0": 5})
    with lab.running():
        mail.wait_for(lambda mails: len(mails) == 1)
    assert mail.subjects == ["quick fires: service=a"]
    assert "firing" not in lab.events("quiet")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_storm_of_100_000_keys_is_a_few_mails_that_count_every_key(lab: Lab, mail: MailServer) -> None:
    lab.topic(partitions=4)
    lab.add("errors", mail.address(), notify=NotifyRule(group_wait_ms=1_000, group_interval_ms=2_000))
    for start in range(0, 100_000, 5_000):
        lab.write(*({"level": "ERROR", "service": f"s{start + number}"} for number in range(5_000)))
    with lab.running():
        mail.wait_for(lambda _: counted(mail) == 100_000, timeout_s=500)
        wait_until(lambda: lab.stored().waiting == {})
    assert len(mail.mails) <= 100
    assert max(len(str(each)) for each in mail.mails) < 20_000


def counted(mail: MailServer) -> int:
    """`errors fires (4,000 firing)`"""
    return sum(int(subject.partition("(")[2].split()[0].replace(",", "")) for subject in mail.subjects)


def test_mail_server_that_hangs_delays_no_other_target(
    lab: Lab, mail: MailServer, http: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_module, "TIMEOUT_S", 0.5)
    lab.topic()
    mail.hangs = True
    lab.add("errors", mail.address(), http.url)
    with lab.running():
        for number in range(3):
            lab.write({"level": "ERROR", "service": str(number)})
            http.wait_for(number + 1)
        wait_until(lambda: "retrying" in lab.events())
        mail.hangs = False
        mail.wait_for(lambda mails: len(mails) == 3)
    assert "timed out" in next(each.reason for each in lab.history() if each.event == "retrying")
