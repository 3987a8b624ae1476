"""Sinks from the options of a Spark writer."""

from __future__ import annotations

import pytest

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks import Delta, Redis, Search, Sink, Table, Topic
from headrace.pipeline.sinks.options import read_options


@pytest.mark.parametrize(
    ("options", "sink"),
    [
        (
            {"name": "t", "key": "id, part", "merge": "n:sum, at : max", "orderby": "n"},
            Table("t", key=["id", "part"], merge={"n": "sum", "at": "max"}, order_by="n"),
        ),
        ({"name": "a", "orderBy": "at", "KEY": "id,"}, Search("a", order_by="at", key="id")),
        (
            {"name": "a", "partitionBy": "x,y", "storage.AWS_REGION": "eu", "Storage.key.id": "k"},
            Delta("a", partition_by=["x", "y"], storage_options={"AWS_REGION": "eu", "key.id": "k"}),
        ),
        (
            {"name": "r", "key": "id", "expire_s": "60", "timeoutS": "2.5"},
            Redis("r", key="id", expire_s=60, timeout_s=2.5),
        ),
        ({"topic": "clicks", "compression": "zstd"}, Topic("clicks", compression="zstd")),
        ({"at": "clicks"}, Topic("clicks")),
    ],
    ids=lambda each: each.kind if isinstance(each, Sink) else "",
)
def test_option_sets_the_field_of_its_name(options: dict[str, str], sink: Sink) -> None:
    assert type(sink).from_options(options) == sink


@pytest.mark.parametrize("kind", [Delta, Search])
def test_folder_names_a_sink_without_a_name(kind: type[Delta | Search]) -> None:
    assert kind.from_options({"at": "/data/orders/"}) == kind("orders", at="/data/orders/")


@pytest.mark.parametrize("kind", [Delta, Redis, Search, Table])
def test_sink_without_a_name_is_rejected(kind: type[Sink]) -> None:
    with pytest.raises(BadSink, match=f"headrace-{kind.kind} needs a name"):
        kind.from_options({})


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Table, {"keys": "id"}, r"headrace-table has no option 'keys' \(its options are: name, key, mode"),
        (Table, {"storage.region": "eu"}, "headrace-table has no option 'storage.region'"),
        (Delta, {"storage_options": "a:b"}, "headrace-delta has no option 'storage_options'"),
        (Delta, {"compact_files": "many"}, "compact_files='many' is not a number"),
        (Redis, {"name": "x", "listed": "yes"}, "listed='yes' is neither true nor false"),
        (Topic, {"key": "id"}, r"headrace-topic has no option 'key' \(its options are: topic, at, name"),
        (Topic, {}, "headrace-topic needs a topic"),
    ],
)
def test_error_names_the_option(kind: type[Sink], options: dict[str, str], message: str) -> None:
    with pytest.raises(BadSink, match=message):
        kind.from_options(options)


def test_only_fields_that_are_set_are_returned() -> None:
    assert read_options(Table, {"name": "t"}) == {"name": "t"}
