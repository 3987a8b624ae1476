"""Messages as text: the default, templates, and templates that are wrong or hostile."""

from __future__ import annotations

import pytest

from headrace.alerts.definition import Templates
from headrace.alerts.errors import BadAlert
from headrace.alerts.message import ListedKey, Message, MessageKind, sample
from headrace.alerts.rendering import (
    BODY_CHARS_MAX,
    TITLE_CHARS_MAX,
    check_templates,
    default_title,
    rendered,
)
from tests.alerts.targets.messages import firing


def message(count: int, kind: MessageKind = MessageKind.FIRING) -> Message:
    listed = tuple(
        ListedKey(key={"service": f"s{number}"}, firing=number, since_ms=0, fired_ms=0, record={"n": "<b>"})
        for number in range(min(count, 3))
    )
    return Message(
        id="m",
        alert="errors",
        topic="logs",
        kind=kind,
        at_ms=0,
        firing=listed,
        firing_count=count,
        uncounted=2,
    )


def test_default_text_names_keys_times_and_what_is_cut() -> None:
    content = rendered(message(5), Templates())
    assert content.title == "errors fires (5 firing)"
    assert '  service=s0: since 1970-01-01T00:00:00Z\n    {"n": "<b>"}\n' in content.text
    assert "  and 2 more\n" in content.text
    assert "2 more firings had ended before this message" in content.text


def test_title_of_one_key_names_it() -> None:
    assert default_title(firing()) == "errors fires: service=checkout"
    assert default_title(firing(MessageKind.ESCALATION)) == "errors still fires: service=checkout"


def test_templates_have_the_keys_the_times_and_the_counts() -> None:
    templates = Templates(
        title="{{ alert }}: {{ firing_count }} of {{ key.service }}",
        body="{% for one in firing %}{{ one.key.service }} {{ one.since_ms | time }} {{ one.record.n }}\n{% endfor %}",
        html="{% for each in firing %}<p>{{ each.record.n }}</p>{% endfor %}",
    )
    content = rendered(message(2), templates)
    assert content.title == "errors: 2 of s0"
    assert content.text == "s0 1970-01-01T00:00:00Z <b>\ns1 1970-01-01T00:00:00Z <b>\n"
    assert content.html == "<p>&lt;b&gt;</p><p>&lt;b&gt;</p>"
    assert content.problem == ""


@pytest.mark.parametrize(
    "template",
    [
        "{{ missing.field }}",
        "{% for",
        "{{ 1 / 0 }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ firing.append(1) }}",
        "{% for a in range(10**9) %}x{% endfor %}",
        "{{ firing[7].key }}",
        "{{ alert + 1 }}",
    ],
)
def test_template_that_fails_is_replaced_by_the_default_text_with_the_problem(template: str) -> None:
    content = rendered(message(1), Templates(body=template))
    assert content.problem.startswith("the template failed: ")
    assert content.text.startswith("Firing:\n  service=s0")
    assert content.problem in content.text
    with pytest.raises(BadAlert, match="the template failed"):
        check_templates(Templates(body=template), message(1))


def test_endless_text_is_cut() -> None:
    body = "{% for a in range(99999) %}{% for b in range(99999) %}xxxxxxxxxx{% endfor %}{% endfor %}"
    assert len(rendered(message(1), Templates(body=body)).text) == BODY_CHARS_MAX


def test_title_is_one_short_line() -> None:
    content = rendered(message(1), Templates(title="a\r\nBcc: eve@example.com\x1b[31m" + "x" * 1_000))
    assert content.title.startswith("a Bcc: eve@example.com\\x1b")
    assert len(content.title) == TITLE_CHARS_MAX


def test_sample_is_marked_as_a_test() -> None:
    found = sample("errors", "logs", "id", ("service",), "level = 'ERROR'", 0)
    content = rendered(found, Templates())
    assert content.title == "errors test: service=sample"
    assert content.text.startswith("This is a test: nothing has happened.")
    check_templates(Templates(body="{{ key.service }} {{ kind }}"), found)
