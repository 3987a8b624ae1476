"""The catalogue as HTML: one list, and a page for each event type. Without scripts, and without other files. Pure.

Every text comes from clients, and is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote

from headrace.gateway.catalog.model import Catalog, EventSchema, EventType, Field, User
from headrace.printable import printable

POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
"""The browser enforces it: nothing is loaded and no script runs, whatever a schema says."""

ROWS_MAX = 1_000
"""Of the list; a search finds the others."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #1f2933 }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem } a { color: #0b5cad }
table { border-collapse: collapse; width: 100% } th { text-align: left; color: #52606d; font-weight: 600 }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #e4e7eb; vertical-align: top; overflow-wrap: anywhere }
code { font: 13px ui-monospace, monospace } .none { color: #7b8794 } .problem { color: #a61b1b }
input { font: inherit; padding: .25rem .5rem; width: 20rem; max-width: 60% } button { font: inherit }
"""


def list_page(catalog: Catalog, *, search: str = "") -> str:
    found = catalog.found(search)
    count = f"{len(found):,} of {len(catalog.event_types):,}" if search else f"{len(found):,}"
    rows = [
        (_link(each), _schemas(each), _or_none(each.owner), _users(each.written_by), _users(each.read_by))
        for each in found[:ROWS_MAX]
    ]
    more = _problems([f"only the first {ROWS_MAX:,} are shown"] if len(found) > ROWS_MAX else [])
    form = (
        '<form><input name="search" aria-label="Search" placeholder="name, owner, description"'
        f' value="{_text(search)}"> <button>Search</button></form>'
    )
    body = (
        f"<h1>Event types</h1>{form}<p>{count} event types</p>{more}{_problems(catalog.problems)}"
        + _table(("event type", "schemas", "owner", "written by", "read by"), rows)
    )
    return _page("Event types", body)


def event_type_page(event_type: EventType, problems: Sequence[str] = ()) -> str:
    partitions = "no topic of this name" if event_type.partitions is None else f"{event_type.partitions:,}"
    facts = [
        ("owner", _or_none(event_type.owner)),
        ("contact", _or_none(event_type.contact)),
        ("partitions", _text(partitions)),
        ("written by", _users(event_type.written_by)),
        ("read by", _users(event_type.read_by)),
    ]
    description = f"<p>{_text(event_type.description)}</p>" if event_type.description else ""
    body = (
        '<p><a href="catalog.html">All event types</a></p>'
        f"<h1>{_text(event_type.name)}</h1>{description}{_problems(problems)}"
        + _table((), [(f"<b>{name}</b>", value) for name, value in facts])
        + "".join(_schema(each) for each in event_type.schemas)
    )
    return _page(event_type.name, body)


def _schema(schema: EventSchema) -> str:
    versions = ", ".join(map(str, schema.versions))
    references = "".join(
        f"<li><code>{_text(each.name)}</code>: {_text(each.subject)}, version {each.version}</li>"
        for each in schema.references
    )
    return (
        f"<h2>{schema.part}: {_text(schema.subject)}</h2>"
        f"<p>{_text(schema.type)}, id {schema.id}, version {schema.version} (all: {versions}), "
        f"compatibility {_text(schema.compatibility)}</p>"
        + (f"<p>References:</p><ul>{references}</ul>" if references else "")
        + _problems([schema.problem] if schema.problem else [])
        + _fields(schema.fields or ())
    )


def _fields(fields: Sequence[Field]) -> str:
    if not fields:
        return ""
    rows = [
        (
            f"<code>{_text(each.path or '(the value)')}</code>",
            _text(each.type),
            "yes" if each.required else _NONE,
            _NONE if each.default is None else f"<code>{_text(each.default)}</code>",
            _or_none(each.doc),
        )
        for each in fields
    ]
    return _table(("field", "type", "required", "default", "meaning"), rows)


def _link(event_type: EventType) -> str:
    return (
        f'<a href="catalog.html?name={_text(quote(event_type.name, safe=""))}">{_text(event_type.name)}</a>'
    )


def _schemas(event_type: EventType) -> str:
    found = [f"{each.part} {each.type} v{each.version}" for each in event_type.schemas]
    return _or_none(", ".join(found))


def _users(users: Iterable[User]) -> str:
    return _or_none(", ".join(map(str, users)))


def _problems(problems: Iterable[str]) -> str:
    return "".join(f'<p class="problem">{_text(each)}</p>' for each in problems)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Of cells that are HTML."""
    head = "".join(f"<th>{_text(each)}</th>" for each in columns)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{lines}</table>"


_NONE = '<span class="none">–</span>'


def _or_none(text: str | None) -> str:
    return _text(text) if text else _NONE


def _text(text: str) -> str:
    return escape(printable(text))


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>{body}</body></html>"
    )
