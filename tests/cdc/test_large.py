"""Rows and transactions of any size: written within a bounded memory, or an error with the remedy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.cdc.capture import Capture, CaptureFolder, Captures
from headrace.cdc.errors import BadCapture
from headrace.cdc.runner import CaptureRun
from headrace.kafka.cluster import Cluster
from headrace.testing.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).parents[2]
MEMORY_MB_MAX = 200
# One random megabyte, two hundred times: too far apart for the compression of a batch.
LARGE = "(SELECT repeat(string_agg(md5(n::text), ''), 200) FROM generate_series(1, 32768) n)"


@pytest.fixture
def address(postgres: PostgresServer, name: str) -> str:
    return postgres.create_database(name)


@pytest.fixture
def captured(name: str, address: str, tmp_path: Path) -> Iterator[tuple[Capture, CaptureFolder]]:
    capture = Capture(name=name, address=address, partitions=1)
    yield capture, Captures(tmp_path / "data").add(capture)
    source = capture.open_source()
    source.remove()
    source.close()


@pytest.mark.parametrize("is_in_snapshot", [True, False])
def test_row_of_200_mb_ends_the_capture_with_the_remedy(
    captured: tuple[Capture, CaptureFolder], cluster: Cluster, is_in_snapshot: bool
) -> None:
    capture, folder = captured
    with psycopg.connect(capture.address, autocommit=True) as connection:
        connection.execute("CREATE TABLE files (id int4 PRIMARY KEY, content text)")
        if not is_in_snapshot:
            CaptureRun(capture, folder, cluster, once=True).run()
        connection.execute(f"INSERT INTO files VALUES (1, {LARGE})".encode())
    with pytest.raises(BadCapture, match=r"of [\d,]+ bytes does not fit into topic .*files") as rejected:
        CaptureRun(capture, folder, cluster, once=True).run()
    assert "max.message.bytes" in rejected.value.hint


def test_transaction_of_a_million_rows_is_written_within_a_bounded_memory(
    captured: tuple[Capture, CaptureFolder], cluster: Cluster, tmp_path: Path
) -> None:
    capture, folder = captured
    with psycopg.connect(capture.address, autocommit=True) as connection:
        connection.execute("CREATE TABLE rows (id int4 PRIMARY KEY, title text)")
        CaptureRun(capture, folder, cluster, once=True).run()
        connection.execute("INSERT INTO rows SELECT n, 'row ' || n FROM generate_series(1, 1000000) n")
    arguments = {
        "bootstrap": cluster.bootstrap,
        "address": capture.address,
        "capture": capture.name,
        "tables": [],
        "folder": str(tmp_path / "again"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cdc.programs.capture", json.dumps(arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["events"] == 1_000_000
    assert figures["resident_mb"] < MEMORY_MB_MAX
