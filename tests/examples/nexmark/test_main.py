"""`python -m examples.nexmark` shows the same table for bounded rows and for a job on topics."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.timeout(300)
def test_query_shows_the_same_table_bounded_and_as_a_job_on_topics(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from examples.nexmark.__main__ import main

    monkeypatch.setattr(type(spark), "stop", lambda spark: None)  # other tests use the session too

    def shown(*arguments: str) -> list[list[str]]:
        monkeypatch.setattr(sys, "argv", ["nexmark", *arguments])
        main()
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    bounded = shown("q18")
    assert bounded[0] == ["auction", "bidder", "price", "channel", "url", "at"]
    assert bounded[-1] == ["204", "rows,", "the", "first", "20", "of", "them", "shown"]
    assert shown("q18", "--stream") == bounded
    assert [line[0] for line in shown()][-3:] == ["q20", "q21", "q22"]
