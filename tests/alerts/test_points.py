"""kill -9 at every point of a notification: none is lost, and only those in doubt come twice, with the same id."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pytest

from headrace.alerts.points import Point
from tests.alerts.conftest import Lab, wait_until
from tests.alerts.servers import MailServer

ROOT = Path(__file__).parents[2]


@contextmanager
def runner(lab: Lab, point: str, number: int) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "tests.alerts.killed_runner",
        lab.bootstrap,
        str(lab.folder),
        point,
        str(number),
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("point", get_args(Point))
def test_kill_loses_no_notification_and_doubles_only_those_in_doubt(
    point: Point, number: int, lab: Lab, mail: MailServer
) -> None:
    lab.topic()
    lab.add("errors", mail.address())
    with runner(lab, point, number) as process:
        services = 0
        while process.poll() is None:
            services += 1
            for level in ("ERROR", "INFO"):
                before = len(mail.mails)
                lab.write({"level": level, "service": f"s{services}"})
                wait_until(lambda: process.poll() is not None or len(mail.mails) > before)  # noqa: B023
    in_doubt = {message for message, _ in lab.stored().waiting} & {
        each[1:-1].partition("@")[0] for each in mail.ids
    }
    if point == "accepted":
        assert in_doubt
    with lab.running():
        lab.write({"level": "ERROR", "service": "last"})
        wait_until(
            lambda: "firing" in [each.event for each in lab.history() if each.key == {"service": "last"}]
        )
        wait_until(lambda: lab.stored().waiting == {} and lab.events()[-1] == "delivered")

    history = lab.history()
    decided = [each.message for each in history if each.event == "notifying"]
    taken = Counter(each[1:-1].partition("@")[0] for each in mail.ids)
    assert set(taken) == set(decided)
    assert {message for message, count in taken.items() if count > 1} == in_doubt
    assert max(taken.values()) <= 2
    # What the log has is there once.
    firings = [each.firing for each in history if each.event == "firing"]
    assert firings == list(range(1, services + 2))
    assert [each.firing for each in history if each.event == "resolved"] == firings[:-1]
    assert len(decided) == len(set(decided))
    reported = "".join(str(each.get_content()) for each in mail.mails)
    assert all(
        f"service={each}:" in reported for each in ("last", *(f"s{number + 1}" for number in range(services)))
    )
