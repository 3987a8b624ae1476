"""What a batch took from a source, by the texts of Spark's offset log."""

from __future__ import annotations

import json

import pytest

from headrace.errors import HeadraceError
from headrace.pipeline.source import positions
from headrace.pipeline.source.offsets import EARLIEST, offsets_of, offsets_text, span_of_batch
from headrace.pipeline.source.positions import TopicsOnBroker


def test_offsets_survive_their_text() -> None:
    offsets = {"clicks": {10: 3, 2: 5}, "views": {0: 0}}

    assert offsets_of(offsets_text(offsets)) == offsets


def test_a_batch_spans_from_its_start_to_its_end() -> None:
    span = span_of_batch('{"clicks":{"0":3}}', '{"clicks":{"0":7}}')

    assert (span.starts, span.ends) == ({"clicks": {0: 3}}, {"clicks": {0: 7}})
    assert json.loads(span.options()["assign"]) == {"clicks": [0]}


def test_a_partition_that_a_batch_saw_first_is_read_from_its_beginning() -> None:
    span = span_of_batch('{"clicks":{"0":3}}', '{"clicks":{"0":7,"1":2},"views":{"0":1}}')

    assert span.starts == {"clicks": {0: 3, 1: EARLIEST}, "views": {0: EARLIEST}}
    assert span_of_batch(None, '{"clicks":{"0":7}}').starts == {"clicks": {0: EARLIEST}}


def test_a_broker_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "BROKER_TIMEOUT_S", 0.5)

    with pytest.raises(HeadraceError, match=r"no broker answers at 127\.0\.0\.1:1: .*headrace broker"):
        TopicsOnBroker("127.0.0.1:1", topics=("clicks",), pattern=None).partitions()
