"""`headrace job dead` on a real broker, with letters as a job writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.report.registry import JobState, JobStatus, Registry
from tests.cli.conftest import Headrace
from tests.cli.typed_json import json_problems
from tests.compatibility.topic_contents import read_to_end, write
from tests.queue.job_letters import job_letter

Dead = Callable[..., str]


@pytest.fixture
def dead(headrace: Headrace, data_dir: Path) -> Dead:
    """The output of `headrace job dead …`."""

    def dead(*arguments: str) -> str:
        return headrace("job", "dead", *arguments, "--data-dir", str(data_dir)).out

    return dead


def record_job(data_dir: Path, name: str, bootstrap: str, *topics: str) -> None:
    status = JobStatus(
        name=name,
        state=JobState.DONE,
        pid=1,
        mode="batch",
        bootstrap=bootstrap,
        dead_letter_topics=topics,
    )
    folder = Registry(data_dir).folder(name)
    folder.path.mkdir(parents=True)
    folder.write(status)


def test_letters_of_a_job_are_listed_shown_redriven_discarded_and_purged(
    dead: Dead, headrace: Headrace, data_dir: Path, bootstrap: str, topic: str, name: str
) -> None:
    letters = f"{name}.dead"
    record_job(data_dir, name, bootstrap, letters, f"dlq.{name}")
    assert "no dead letters" in dead("list", name)
    reasons = ("not JSON", "field n is missing", "not JSON")
    write(
        bootstrap,
        letters,
        [job_letter(name, topic, offset, reason=reason) for offset, reason in enumerate(reasons)],
    )
    listed = dead("list", name, "--match", "field", "--format", "json")
    assert json_problems("job dead list", listed) == []
    (letter,) = json.loads(listed)
    assert (letter["original"]["offset"], letter["reason"], letter["group"]) == (
        1,
        "field n is missing",
        name,
    )
    place = f"{letter['partition']}:{letter['offset']}"
    assert json_problems("job dead show", dead("show", name, place, "--format", "json")) == []
    assert dead("show", name, place).endswith("\nbad 1\n")

    assert "2 letters would be" in dead("redrive", name, "--match", "JSON", "--dry-run")
    redriven = dead("redrive", name, "--match", "JSON", "--format", "json")
    assert json_problems("job dead redrive", redriven) == []
    assert json.loads(redriven) == {"group": name, "redriven": 2, "left": 1}
    assert [message.value() for message in read_to_end(bootstrap, topic)] == [b"bad 0", b"bad 2"]

    discarded = dead("discard", name, "--yes", "--format", "json")
    assert json_problems("job dead discard", discarded) == []
    assert "no dead letters" in dead("list", name)
    assert "--yes" in headrace("job", "dead", "purge", name, "--data-dir", str(data_dir), code=1).err
    assert json_problems("job dead purge", dead("purge", name, "--yes", "--format", "json")) == []


def test_job_with_letters_in_two_topics_asks_for_one(
    dead: Dead, headrace: Headrace, data_dir: Path, bootstrap: str, topic: str, name: str
) -> None:
    topics = (f"{name}.dead", f"dlq.{name}")
    record_job(data_dir, name, bootstrap, *topics)
    for offset, each in enumerate(topics):
        write(bootstrap, each, [job_letter(name, topic, offset)])
    failed = headrace("job", "dead", "list", name, "--data-dir", str(data_dir), code=1).err
    assert f"--topic {name}.dead" in failed
    assert "bad 1" in dead("list", name, "--topic", f"dlq.{name}")


def test_job_of_another_machine_is_found_by_its_name(
    dead: Dead, bootstrap: str, topic: str, name: str
) -> None:
    write(bootstrap, f"dlq.{name}", [job_letter(name, topic, 0)])
    assert "bad 0" in dead("list", name)
