from __future__ import annotations

from headrace.edges.direct.carried import Carried, carrying
from headrace.edges.direct.tails import read_tails
from headrace.edges.event import Event
from headrace.edges.overload import Intake
from headrace.edges.settings import EdgeSettings
from headrace.kafka.cluster import Cluster
from tests.edges.direct.conftest import STREAM, event


def test_last_records_of_a_topic_are_read_and_those_of_others_skipped(bootstrap: str, topic: str) -> None:
    cluster = Cluster(bootstrap, timeout_s=30)
    sent = [Carried(stream=STREAM, number=number, first=number) for number in range(10)]
    with Intake(cluster.client_config(), EdgeSettings(), name="feed") as intake:
        intake.offer([carrying(topic, event(each.number), each) for each in sent])
        intake.offer([Event(topic=topic, value=b"of another producer")])

    (whole,) = read_tails(cluster, topic, records=100)
    assert (whole.carried, whole.is_whole) == (sent, True)
    (short,) = read_tails(cluster, topic, records=4)
    assert (short.carried, short.is_whole) == (sent[-3:], False)


def test_empty_topic_has_empty_tails(bootstrap: str, topic: str) -> None:
    (tail,) = read_tails(Cluster(bootstrap, timeout_s=30), topic, records=100)
    assert (tail.carried, tail.is_whole) == ([], True)
