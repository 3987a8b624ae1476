"""A message as text: the default, or the templates of its alert. Templates are sandboxed, and bounded in size."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from msgspec import Struct

from headrace.alerts.definition import Templates
from headrace.alerts.errors import BadAlert
from headrace.alerts.message import ListedKey, Message, MessageKind
from headrace.alerts.silences import shown
from headrace.printable import printable, printable_json

TITLE_CHARS_MAX = 200
BODY_CHARS_MAX = 100_000
"""Mail servers take more, chat services less: their libraries cut it."""

_NAMES = {
    MessageKind.FIRING: "fires",
    MessageKind.RESOLVED: "resolved",
    MessageKind.ESCALATION: "still fires",
    MessageKind.TEST: "test",
}


class Rendered(Struct, frozen=True, kw_only=True):
    title: str
    text: str
    html: str = ""
    problem: str = ""
    """why a template was not used"""


def rendered(message: Message, templates: Templates) -> Rendered:
    """By the templates; a template that fails is replaced by the default text, which then names the problem."""
    title, text = default_title(message), default_text(message)
    if templates.is_empty:
        return Rendered(title=title, text=text)
    try:
        return Rendered(
            title=_line(_by_template(templates.title, message)) if templates.title else title,
            text=_by_template(templates.body, message) if templates.body else text,
            html=_by_template(templates.html, message, is_html=True) if templates.html else "",
        )
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        problem = f"the template failed: {type(error).__name__}: {error}"[:500]
        return Rendered(title=title, text=f"{text}\n{printable(problem)}\n", problem=problem)


def check_templates(templates: Templates, message: Message) -> None:
    """BadAlert if they can't render the message."""
    problem = rendered(message, templates).problem
    if problem:
        raise BadAlert(
            problem, hint="names of a template: alert, kind, key, group, firing, resolved, counts, topic"
        )


def default_title(message: Message) -> str:
    about = ""
    listed = message.firing or message.resolved
    if len(listed) == 1 and message.cut == 0:
        about = _key_text(listed[0])
    elif message.group:
        about = ", ".join(f"{name}={shown(value)}" for name, value in message.group.items())
    title = f"{message.alert} {_NAMES[message.kind]}{': ' if about else ''}{about}"
    parts = []
    if message.kind is not MessageKind.TEST and message.firing_count + message.resolved_count > 1:
        if message.firing_count:
            parts.append(f"{message.firing_count:,} firing")
        if message.resolved_count:
            parts.append(f"{message.resolved_count:,} resolved")
    return _line(f"{title} ({', '.join(parts)})" if parts else title)


def default_text(message: Message) -> str:
    return _cut("\n".join(_lines(message)), BODY_CHARS_MAX) + "\n"


def _lines(message: Message) -> Iterator[str]:
    if message.kind is MessageKind.TEST:
        yield "This is a test: nothing has happened."
        yield ""
    if message.kind is MessageKind.ESCALATION and message.firing:
        yield "Not acknowledged:"
    for heading, listed, count in (
        ("Firing", message.firing, message.firing_count),
        ("Resolved", message.resolved, message.resolved_count),
    ):
        if not listed:
            continue
        yield f"{heading}:"
        for each in listed:
            yield _listed(each)
        if count > len(listed):
            yield f"  and {count - len(listed):,} more"
        yield ""
    if message.uncounted:
        yield f"{message.uncounted:,} more firings had ended before this message."
        yield ""
    yield f"alert: {message.alert}, topic: {message.topic}"
    if message.when:
        yield f"condition: {printable(message.when)}"
    yield f"decided: {time_text(message.at_ms)}, firing now: {message.total_firing:,}"


def _listed(each: ListedKey) -> str:
    times = f"since {time_text(each.since_ms)}"
    if each.resolved_ms is not None:
        times = f"{time_text(each.fired_ms)} to {time_text(each.resolved_ms)}"
    again = " (again)" if each.is_repeated else ""
    record = f"\n    {printable_json(each.record)}" if each.record is not None else ""
    return f"  {_key_text(each) or 'all records'}: {times}{again}{record}"


def _key_text(each: ListedKey) -> str:
    return printable(", ".join(f"{name}={shown(value)}" for name, value in each.key.items()))


def time_text(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _by_template(text: str, message: Message, *, is_html: bool = False) -> str:
    environment = ImmutableSandboxedEnvironment(
        autoescape=is_html, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["time"] = time_text
    pieces, size = [], 0
    for piece in environment.from_string(text).generate(**_context(message)):
        pieces.append(piece)
        size += len(piece)
        if size > BODY_CHARS_MAX:
            break
    return _cut("".join(pieces), BODY_CHARS_MAX)


def _context(message: Message) -> dict[str, Any]:
    found = {name: getattr(message, name) for name in Message.__struct_fields__}
    for name in ("firing", "resolved"):
        found[name] = [
            {field: getattr(each, field) for field in ListedKey.__struct_fields__} for each in found[name]
        ]
    listed = (*message.firing, *message.resolved)
    key = listed[0].key if listed else {}
    return {
        **found,
        "kind": message.kind.value,
        "cut": message.cut,
        "title": default_title(message),
        "key": key,
    }


def _line(text: str) -> str:
    """One line: a title is a header of a mail."""
    return _cut(printable(" ".join(text.split())), TITLE_CHARS_MAX)


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"
