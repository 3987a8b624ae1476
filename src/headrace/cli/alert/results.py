"""The JSON of the commands of `headrace alert`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct

from headrace.cli.output import Shape, result


@result("alert add", "alert show")
class ShownAlert(Struct, frozen=True, kw_only=True):
    name: str
    topic: str
    when: Annotated[str, "the condition; empty: every record"]
    per: Annotated[list[str], "fields whose values are the key"]
    rule: Annotated[dict[str, Any], "when it fires and resolves; durations in milliseconds"]
    group_by: list[str]
    notify: Annotated[dict[str, Any], "when messages are sent; durations in milliseconds"]
    to: Annotated[list[str], "without users, passwords and tokens"]
    escalate_to: list[str]
    templates: Annotated[dict[str, str], "title, body and html; empty if they are the default"]
    added: str
    resolve_when: str = ""
    value_format: str = "json"


@result("alert list", shape=Shape.LIST)
class ListedAlert(Struct, frozen=True, kw_only=True):
    name: str
    topic: str
    condition: str
    per: list[str]
    to: list[str]
    firing: Annotated[int, "keys that fire"]
    pending: Annotated[int, "keys that will fire if nothing changes"]


class StatusKey(Struct, frozen=True, kw_only=True):
    alert: str
    key: Annotated[dict[str, Any], "the fields of --per"]
    state: Annotated[str, "pending, firing, silenced, or acknowledged"]
    since: Annotated[str, "when the condition began to hold"]
    notified: Annotated[str | None, "when the first message about it was decided"]
    by: Annotated[str, "who has acknowledged it"]


class StatusCounts(Struct, frozen=True, kw_only=True):
    alert: str
    records: Annotated[int, "that were read since the alert was added"]
    late: Annotated[int, "older than the newest one of their key: they change nothing"]
    unreadable: Annotated[int, "the condition can't be evaluated for them; the history has the first"]
    keys_full: Annotated[int, "of keys beyond the limit"]
    missed: Annotated[int, "deleted before they were read"]
    firings: int
    messages: int
    delivered: Annotated[int, "copies of messages that a target has taken"]
    waiting: Annotated[int, "copies of messages that no target has taken yet"]
    dead: Annotated[int, "copies of messages that a target never took; the history has them"]


@result("alert status")
class AlertStatus(Struct, frozen=True, kw_only=True):
    state: Annotated[str, "of the process: running, waiting to retry, stopped, failed, killed, or never ran"]
    error: str
    keys: list[StatusKey]
    keys_cut: Annotated[int, "keys that are not listed"]
    alerts: list[StatusCounts]


@result("alert remove", "alert acknowledge", "alert silence remove")
class ChangedAlert(Struct, frozen=True, kw_only=True):
    name: str
    done: Annotated[str, "what was done"]


@result("alert test", shape=Shape.LIST)
class Tested(Struct, frozen=True, kw_only=True):
    target: str
    outcome: Annotated[str, "delivered, or the reason why not"]
    is_delivered: bool


@result("alert history", shape=Shape.LINES)
class HistoryLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: str
    alert: str
    event: Annotated[
        str,
        "pending, cancelled, firing, resolved, removed, silenced, suppressed, escalated, acknowledged, unreadable, "
        "keys full, missed; of messages: notifying, retrying, delivered, dead",
    ]
    key: dict[str, Any] | None = None
    firing: Annotated[int | None, "the number of the firing: counted for each alert"] = None
    since: Annotated[str | None, "when the condition began to hold"] = None
    by: Annotated[str, "who has acknowledged it"] = ""
    reason: str = ""
    message: Annotated[str, "the id of the message"] = ""
    kind: Annotated[str, "of the message: firing, resolved or escalation"] = ""
    target: str = ""
    attempt: int | None = None
    firing_count: Annotated[int | None, "keys that the message is about"] = None
    resolved_count: int | None = None
    text: Annotated[str, "of a dead message"] = ""


@result("alert silence add", "alert silence list", shape=Shape.LIST)
class ListedSilence(Struct, frozen=True, kw_only=True):
    id: str
    alert: Annotated[str, "pattern of names"]
    key: Annotated[dict[str, str], "patterns of values, by field"]
    start: str
    end: str
    comment: str
    by: str


@result("alert keys")
class PushKeys(Struct, frozen=True, kw_only=True):
    public_key: Annotated[str, "for applicationServerKey in the browser"]
    contact: str
