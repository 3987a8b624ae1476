"""Kafka's DumpLogSegments on the broker's own files: the stored format is Kafka's."""

from __future__ import annotations

import re

from headrace.testing.java import JavaTools
from tests.compatibility.brokers import BrokerUnderTest
from tests.compatibility.conftest import CreateTopic
from tests.compatibility.java_programs import DUMP_LOG_SEGMENTS, run
from tests.compatibility.topic_contents import write

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_dump_log_segments_reads_logs_and_indexes_of_all_codecs(
    tools_4_3: JavaTools, broker: BrokerUnderTest, create_topic: CreateTopic
) -> None:
    topic = create_topic(segment_bytes="1048576", index_interval_bytes="1000")
    for codec in CODECS:
        # Text that does not compress well, so that segments roll and indexes get entries.
        records = (
            {"key": f"{n}", "value": f"{codec} {n * n * n:x} " * 60, "headers": {"n": str(n)}}
            for n in range(2000)
        )
        write(broker.bootstrap, topic, records, compression_type=codec, batch_size=20_000)
    files = sorted((broker.data_dir / f"{topic}-0").iterdir())
    dumped = [str(path) for path in files if path.suffix in {".log", ".index", ".timeindex"}]
    assert sum(path.suffix == ".log" for path in files) > 1, files

    # With --verify-index-only the tool prints only indexes that disagree with their log.
    for options in (("--print-data-log",), ("--verify-index-only",)):
        output = run(tools_4_3, DUMP_LOG_SEGMENTS, "--files", ",".join(dumped), *options)
        for complaint in (
            "mismatch",
            "corrupt",
            "invalid bytes",
            "out of order",
            "isvalid: false",
            "exception",
        ):
            assert complaint not in output.lower(), output[-3000:]
        if options == ("--print-data-log",):
            offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", output, re.MULTILINE)]
            assert offsets == list(range(2000 * len(CODECS)))
            assert set(re.findall(r"compresscodec: (\w+)", output)) == set(CODECS)
            for n, codec in enumerate(CODECS):
                assert f"payload: {codec} {(1999**3):x} " in output, n
