"""The format of the broker's log lines: text for people, JSON for log collectors."""

from __future__ import annotations

import json
import logging
import sys
from typing import Literal

from headrace.cli.output import format_time
from headrace.printable import printable, printable_json

# The attributes of every log record; all others were given with `extra=` and are part of the line.
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


def configure_logging(log_format: LogFormat, level: LogLevel) -> None:
    """Log to stderr; stdout is for the output of the command."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _ORDINARY}


class TextFormatter(logging.Formatter):
    """2026-11-15T10:35:12.123Z WARNING headrace.broker.server: message (name=value ...)"""

    def format(self, record: logging.LogRecord) -> str:
        time = format_time(record.created * 1000)
        line = f"{time} {record.levelname} {record.name}: {printable(record.getMessage())}"
        fields = _fields(record)
        if fields:
            line += f" ({' '.join(f'{name}={_shown(value)}' for name, value in fields.items())})"
        if record.exc_info:
            # Indented, so that no text within it looks like a line of the log.
            trace = self.formatException(record.exc_info).splitlines()
            line = "\n".join([line, *(f"    {printable(each)}" for each in trace)])
        return line


def _shown(value: object) -> str:
    """In quotes if it could look like the end of the field, as in logfmt."""
    text = printable(str(value))
    return json.dumps(text, ensure_ascii=False) if set(text) & {" ", '"', "=", "(", ")"} else text


class JsonFormatter(logging.Formatter):
    """One object per line; fields given with `extra=` are next to the message."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": format_time(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable_json(line)
