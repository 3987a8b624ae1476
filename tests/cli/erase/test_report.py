"""The report of an erasure, for people."""

from __future__ import annotations

import pytest

from headrace.cli.erase.report import (
    ErasureReport,
    PlaceReport,
    print_list,
    print_report,
    report_of,
    user_topics,
)
from headrace.erasure import LEDGER_TOPIC, Eraser, Subject
from headrace.kafka.cluster import Cluster
from tests.erasure.conftest import cluster, create_topic, topic, write

__all__ = ["cluster", "create_topic", "topic"]  # fixtures


def report(state: str, *, id: str | None = "e1") -> ErasureReport:
    return ErasureReport(
        id=id,
        state=state,
        requested="2026-11-18T06:00:00.000Z",
        complete=None,
        digest=None,
        topics=[],
        places=[PlaceReport(place="shelf", found=2, left=0, complete=None)],
        not_searched=[f"t{number}" for number in range(12)],
    )


@pytest.mark.parametrize(
    ("shown", "line"),
    [
        (report("complete"), "erasure e1 is complete everywhere it was requested"),
        (report("complete", id=None), "erased everywhere it was requested"),
        (report("waiting"), "erasure e1 waits for retention; `headrace erase continue e1` looks again"),
        (report("open"), "erasure e1 is open; `headrace erase continue e1 --wait` continues"),
        (report("open", id=None), "not complete; repeat the command"),
    ],
)
def test_last_line_says_what_to_do_next(
    shown: ErasureReport, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_report(shown)
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == line
    assert "not searched: t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 2 more" in printed.err


def test_list_is_never_empty(capsys: pytest.CaptureFixture[str]) -> None:
    print_list([])
    print_list([report("open")])
    assert "no erasures" in capsys.readouterr().out


def test_report_names_the_topics_that_were_not_searched(cluster: Cluster, topic: str) -> None:
    other = f"{topic}.changes"
    cluster.create_topic(other, partitions=1)
    write(cluster, topic, [("ada", "1")])
    with Eraser(cluster) as eraser:
        erasure = eraser.request(Subject(key="ada"), [topic])
    found = report_of(erasure, cluster)
    assert other in found.not_searched
    assert topic not in found.not_searched
    assert LEDGER_TOPIC not in user_topics(cluster)
