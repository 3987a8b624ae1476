"""Log lines: one record is one line, whatever text clients put into it."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from headrace.cli.broker.log_format import JsonFormatter, TextFormatter

FORGED = "x\n2026-11-15T10:35:12.123Z INFO headrace.broker.server: broker stopped\x1b[2J\x9b"


def record(message: str, *args: object, **fields: object) -> logging.LogRecord:
    created = logging.makeLogRecord(
        {"msg": message, "args": args, "levelname": "INFO", "name": "headrace", "created": 0}
    )
    vars(created).update(fields)
    return created


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_client_id_can_forge_no_line_and_no_escape_sequence(formatter: logging.Formatter) -> None:
    line = formatter.format(record("rejected: %s", FORGED, client_id=FORGED))
    assert len(line.splitlines()) == 1
    assert not set(line) & {"\x1b", "\x9b", "\n"}


def test_json_keeps_the_text_as_it_was() -> None:
    line = json.loads(JsonFormatter().format(record("m", client_id=FORGED)))
    assert line["client_id"] == FORGED


def test_text_field_can_forge_no_other_field() -> None:
    line = TextFormatter().format(record("m", client_id="a) (topic=b", partition="t-0"))
    assert line.endswith(' headrace: m (client_id="a) (topic=b" partition=t-0)')


def test_lines_of_an_exception_are_indented() -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        line = TextFormatter().format(record("failed", exc_info=sys.exc_info()))
    first, *others = line.splitlines()
    assert first.endswith("headrace: failed")
    assert others
    assert all(each.startswith("    ") for each in others)
    assert "\x1b" not in line
