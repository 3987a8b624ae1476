"""Keep all records, and few of them on this disk: old segments move to an archive, transparently for readers.

python examples/archive.py

The archive is a folder here; every address of fsspec, such as s3://bucket/path, works the same.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker

RECORDS = 20_000
CONFIGS = {
    "remote.storage.enable": "true",  # closed segments are copied to the archive
    "local.retention.bytes": "500000",  # the newest half megabyte is also kept on the local disk
    "retention.ms": "-1",  # nothing is ever deleted
    "segment.bytes": "200000",
    "file.delete.delay.ms": "0",
}


def megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*.log")) / 1_000_000


def write(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([NewTopic("measurements", config=CONFIGS)]).values()
    created.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 20_000})
    for number in range(RECORDS):
        producer.produce("measurements", value=f"measurement {number:06}".ljust(100))
        producer.poll(0)
    producer.flush()


def read_all(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "audit", "enable.partition.eof": True})
    consumer.assign([TopicPartition("measurements", 0, 0)])
    count = 0
    while (message := consumer.poll(30)) is not None and message.error() is None:
        assert message.offset() == count
        count += 1
    consumer.close()
    return count


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data, archive = Path(folder, "data"), Path(folder, "archive")
        archive.mkdir()
        with Broker(data, archive_address=str(archive), archive_interval_ms=200) as broker:
            write(broker.bootstrap)
            while megabytes(data) > 1:
                time.sleep(0.1)
            print(f"on disk {megabytes(data):.1f} MB, in the archive {megabytes(archive):.1f} MB")
            print(f"a consumer reads {read_all(broker.bootstrap)} records from offset 0 on")


if __name__ == "__main__":
    main()
