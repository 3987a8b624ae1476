"""The events of Headrace and of Debezium's engine for the same tables, field by field.

Tables and rows are those of Debezium's own tests, with every type of PostgreSQL. They are fetched, and not part of this
repository. What differs is listed in docs/compatibility.md.
"""

from __future__ import annotations

import re
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.cdc.capture import Capture, Captures
from headrace.cdc.runner import CaptureRun
from headrace.java import JarSet, fetch_jars
from headrace.kafka.cluster import Cluster
from headrace.testing.debezium import VERSION, DebeziumEngine
from headrace.testing.postgres import PostgresServer
from headrace.testing.requirements import require_java, require_postgres
from tests.cdc.conftest import committed_records
from tests.cdc.postgres.steps import LOGICAL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TEST_SOURCES = JarSet(
    name=f"debezium-postgres-test-sources-{VERSION}",
    dependencies=(f"io.debezium:debezium-connector-postgres:{VERSION}:test-sources",),
)
ROWS = "io/debezium/connector/postgresql/AbstractRecordsProducerTest.java"
TABLES = "postgres_create_tables.ddl"
# What Headrace does always, Debezium does with these options.
OPTIONS = {"decimal.handling.mode": "string", "interval.handling.mode": "string"}
WAIT_S = 120

BITS = ("bs", "bs7", "bv", "bv2", "bvl", "bvunlimited1", "bvunlimited2")
NOT_A_NUMBER = ("d_nan", "dzs_nan", "dvs_nan", "n_nan", "nzs_nan", "nvs_nan")
DIFFERENT = {
    # Bit strings are texts of 0 and 1, not bytes.
    *(f"public.bitbin_table.{name}" for name in BITS),
    # Money is the text that PostgreSQL prints. The row of a delete has only the key, not a null for all others.
    "public.cash_table.csh",
    # Debezium leaves out circles, and gives a structure for points; Headrace has PostgreSQL's text.
    "public.circle_table.ccircle",
    "public.geom_table.p",
    # NaN and infinities of numeric are PostgreSQL's words.
    *(f"public.numeric_decimal_table.{name}" for name in NOT_A_NUMBER),
    # Infinite dates: Debezium's numbers overflow, with another result in the snapshot than in the stream.
    "public.time_table.date_pinf",
    "public.time_table.date_ninf",
    # Before the year 1 Debezium's snapshot uses the Julian calendar; its stream agrees with Headrace.
    "public.time_table.ts_min",
    "public.time_table.tz_min",
    # Zeros after the second.
    "public.time_table.tz_zero",
    # In each event: names and times of another run, and fields that Headrace has not.
    *(
        f"source.{name}"
        for name in ("lsn", "name", "sequence", "ts_ms", "ts_ns", "ts_us", "txId", "version", "xmin")
    ),
    "source.snapshot",  # Debezium marks the first and the last row
    "transaction",  # only with Debezium's provide.transaction.metadata
    *("ts_ms", "ts_us", "ts_ns"),
}
"""Columns and fields with other values, and why."""


def sources(jar: Path, name: str) -> str:
    with zipfile.ZipFile(jar) as opened:
        return opened.read(name).decode()


def inserts(java: str) -> Iterator[str]:
    """The statements that the constants of the class hold."""
    for constant in re.finditer(r"String INSERT_\w+ =((?:\s*\+?\s*\"(?:[^\"\\]|\\.)*\")+);", java):
        literals = re.findall(r"\"((?:[^\"\\]|\\.)*)\"", constant[1])
        yield re.sub(
            r"\\(u[0-9a-fA-F]{4}|.)",
            lambda found: chr(int(found[1][1:], 16)) if len(found[1]) > 1 else found[1],
            "".join(literals),
        )


@pytest.fixture
def address() -> Iterator[str]:
    require_java()
    require_postgres()
    with PostgresServer(settings=LOGICAL) as server:
        yield server.create_database("types")


def accepted(connection: psycopg.Connection[Any], statements: Iterator[str] | list[str]) -> int:
    """Run what this server can run: some types need extensions that it may not have."""
    count = 0
    for statement in statements:
        try:
            connection.execute(statement.encode())
            count += 1
        except psycopg.Error:
            continue
    return count


def events(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    return [value for _, value in committed_records(bootstrap, topic) if value is not None]


def test_events_are_those_of_debezium(address: str, bootstrap: str, tmp_path: Path) -> None:
    ours, theirs = (f"{side}{uuid.uuid4().hex[:8]}" for side in ("headrace", "debezium"))
    (jar,) = fetch_jars(TEST_SOURCES).glob("*.jar")
    rows = list(inserts(sources(jar, ROWS)))
    assert len(rows) > 20
    cluster = Cluster(bootstrap, timeout_s=60)
    with psycopg.connect(address, autocommit=True) as connection:
        # The server of the tests has no extensions: tables with other types of theirs are left out.
        tables = sources(jar, TABLES).replace("CITEXT", "TEXT")
        assert accepted(connection, re.split(r";\s*\n", tables)) > 15
        connection.execute("DROP TABLE table_without_pk")  # a capture needs one
        read = accepted(connection, rows)
        assert read > 15
        capture = Capture(name=ours, address=address, keep="all", partitions=1)
        folder = Captures(tmp_path / "captures").add(capture)
        engine = DebeziumEngine(theirs, address, tmp_path / "debezium", bootstrap=bootstrap, more=OPTIONS)
        CaptureRun(capture, folder, cluster, once=True).run()
        with engine:
            engine.wait_for_events(read, WAIT_S)
            created = accepted(connection, rows)
            connection.execute("UPDATE numeric_table SET i = 7 WHERE pk = 1")
            connection.execute("DELETE FROM cash_table WHERE pk = 1")
            engine.wait_for_events(read + created + 3, WAIT_S)  # a delete has a tombstone
        CaptureRun(capture, folder, cluster, once=True).run()
    found = differences(cluster, bootstrap, ours, theirs)
    assert found.keys() == DIFFERENT, {name: found[name] for name in found.keys() - DIFFERENT}


def differences(cluster: Cluster, bootstrap: str, our_name: str, their_name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    topics = [
        topic.removeprefix(f"{their_name}.")
        for topic in cluster.topics()
        if topic.startswith(f"{their_name}.")
    ]
    assert len(topics) > 15
    for topic in topics:
        theirs = events(bootstrap, f"{their_name}.{topic}")
        ours = events(bootstrap, f"{our_name}.{topic}")
        assert [each["op"] for each in ours] == [each["op"] for each in theirs], topic
        for our, their in zip(ours, theirs, strict=True):
            for part in ("before", "after"):
                for column in {**(their[part] or {}), **(our[part] or {})}:
                    mine, other = (our[part] or {}).get(column, "-"), (their[part] or {}).get(column, "-")
                    if mine != other:
                        found[f"{topic}.{column}"] = f"{our['op']} {part}: {mine!r}, {other!r}"
            for field in {**their["source"], **our["source"]}:
                mine, other = our["source"].get(field, "-"), their["source"].get(field, "-")
                if mine != other:
                    found.setdefault(f"source.{field}", f"{mine!r} {other!r}")
            for field in {**their, **our}.keys() - {"before", "after", "source"}:
                mine, other = our.get(field, "-"), their.get(field, "-")
                if mine != other:
                    found.setdefault(f"{field}", f"{mine!r} {other!r}")
    return found
