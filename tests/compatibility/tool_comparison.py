"""One command line, run on Apache Kafka and on Headrace: both must print the same, except for what must differ."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Mapping
from typing import Any

from tests.compatibility.brokers import BrokerUnderTest
from tests.compatibility.one_jvm import OneJvm, Printed

PATIENCE_S = 15
"""Kafka's broker learns of a metadata change a moment after it was made."""

READING = frozenset(("--describe", "--list", "describe", "list", "--verify", "describe-producers"))

_STACK = re.compile(r"^\s+at .*\n|^\s+\.\.\. \d+ more\n|^Caused by: .*\n|^\s+Suppressed: .*\n", re.MULTILINE)
_EXCEPTION = re.compile(r"(org\.apache\.kafka\.[\w.]+(?:Exception|Error)): .*")
# Error codes are Kafka's, and texts are Headrace's own.
_ERROR = re.compile(r"(\b(?:Error[\w ()-]*|error) ?:) .*")
_ENDPOINT = re.compile(r"[A-Z]+://[\d.]+:\d+")
_ID = re.compile(r"(?<![\w-])(?=[a-z0-9_-]*[A-Z])[A-Za-z0-9_-]{22}(?![\w-])")
_TIME = re.compile(r"\b1[67]\d{11}\b|\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d[:.]\d+")
# Positions in Kafka's log of metadata, of which Headrace has none.
_METADATA_OFFSET = re.compile(r"(Epoch:|HighWatermark:|ID \t?)\s*\d+")
_SPACES = re.compile(r"[ \t]+")
_QUOTAS = re.compile(r"^(Quota configs for .* are )(.*)$", re.MULTILINE)


class Comparison:
    """Runs tools on both brokers. `BROKER` in a command line is the address, `DATA` the data folder."""

    def __init__(self, jvm: OneJvm, brokers: Mapping[str, BrokerUnderTest]) -> None:
        self._jvm = jvm
        self._brokers = brokers

    def __call__(self, main_class: str, command_line: str, *, input: str = "", fails: bool = False) -> str:
        """Run on both, and return the common stdout. Both must succeed, or both must fail."""
        is_reading = not READING.isdisjoint(command_line.split())
        deadline_s = time.monotonic() + (PATIENCE_S if is_reading else 0)
        while True:
            of_kafka, of_headrace = (
                self._run(broker, main_class, command_line, input) for broker in self._brokers.values()
            )
            if of_kafka == of_headrace or time.monotonic() > deadline_s:
                break
            time.sleep(0.1)
        assert of_headrace == of_kafka, f"{command_line}\nKafka: {of_kafka}\nHeadrace: {of_headrace}"
        assert (of_kafka.exit_code != 0) == fails, of_kafka
        return of_kafka.stdout

    def each(self, main_class: str, command_line: str) -> dict[str, str]:
        """Run on both, and return the output of each, normalised. Both must succeed."""
        printed = {
            kind: self._run(broker, main_class, command_line, "") for kind, broker in self._brokers.items()
        }
        assert [one.exit_code for one in printed.values()] == [0, 0], printed
        return {kind: one.stdout for kind, one in printed.items()}

    def _run(self, broker: BrokerUnderTest, main_class: str, command_line: str, input: str) -> Printed:
        line = command_line.replace("BROKER", broker.bootstrap).replace("DATA", str(broker.data_dir))
        printed = self._jvm.run(main_class, *shlex.split(line), input=input)
        return Printed(
            exit_code=printed.exit_code,
            stdout=normalised(printed.stdout, broker),
            stderr=normalised(printed.stderr, broker),
        )


def normalised(text: str, broker: BrokerUnderTest) -> str:
    """The text without addresses, ids, times and wordings; its lines in order."""
    text = _ENDPOINT.sub("ENDPOINT", text).replace(broker.bootstrap, "BROKER")
    text = text.replace(broker.bootstrap.rpartition(":")[2], "PORT").replace(str(broker.data_dir), "DATA")
    text = _ERROR.sub(r"\1 …", _EXCEPTION.sub(r"\1", _STACK.sub("", text)))
    text = _TIME.sub("TIME", _ID.sub("ID", text))
    text = _METADATA_OFFSET.sub(r"\1 N", _SPACES.sub(" ", text))
    text = _QUOTAS.sub(lambda found: found[1] + ", ".join(sorted(found[2].split(", "))), text)
    return "\n".join(sorted(filter(None, (_in_order(line.strip()) for line in text.splitlines()))))


def _in_order(line: str) -> str:
    """JSON with its lists sorted: tools print sets."""
    try:
        return json.dumps(_sorted(json.loads(line))) if line.startswith("{") else line
    except ValueError:
        return line


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(inner) for inner in value), key=str)
    return value
