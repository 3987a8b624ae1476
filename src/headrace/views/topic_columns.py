"""The columns of a topic: their names and types, the key, and whether its records are changes, rows or events.

In this order they come from the definition of the view, from the schema that a capture wrote, from the schema that
Debezium repeats in each record, and from a sample of the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.views.definition import Definition
from headrace.views.errors import BadView
from headrace.views.inference import inferred_columns
from headrace.views.topic_sample import Sampled, sample
from headrace.views.value_forms import Form, connect_form, plain, wanted_form

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster

Kind = Literal["changes", "table", "events"]
"""changes: Debezium's envelope; table: the value is the row of its key, and a tombstone deletes it; events: each record
is a row of its own."""

KEY = "_key"
"""The key of a record as text, where it is not a column of the value."""


class Column(Struct, frozen=True, kw_only=True):
    name: str
    form: Form
    may_be_unchanged: bool = False
    """whether an update may lack the value, because PostgreSQL does not repeat a large one"""


class TopicColumns(Struct, frozen=True, kw_only=True):
    topic: str
    kind: Kind
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """the columns of the key; `_key` if they are not in the value, and none for events"""
    key_is_text: bool = False
    """whether the record's key is the text of the one key column, and not JSON"""
    given: str = ""
    """what the user wrote in the definition"""
    notes: tuple[str, ...] = ()

    def column(self, name: str) -> Column:
        return next(each for each in self.columns if each.name == name)


def columns_of(definition: Definition, cluster: Cluster) -> dict[str, TopicColumns]:
    """The columns of the view's topics, as they were recorded, or else as they are found now."""
    wanted = [topic for topic in definition.topics if not _is_recorded(definition, topic)]
    if wanted:
        cluster.require_topics(wanted)
    return {
        topic: msgspec.json.decode(definition.schemas[topic], type=TopicColumns)
        if topic not in wanted
        else _columns(topic, definition, cluster)
        for topic in definition.topics
    }


def recorded(definition: Definition, columns: Mapping[str, TopicColumns]) -> Definition:
    """The definition with these columns. A version of a view keeps them: records that come later do not change it."""
    schemas = {topic: msgspec.json.encode(each).decode() for topic, each in columns.items()}
    return replace(definition, schemas=schemas)


def unrecorded(definition: Definition) -> Definition:
    """The definition as the user wrote it, for a version that finds the columns anew."""
    schemas = {}
    for topic, text in definition.schemas.items():
        if _is_recorded(definition, topic):
            text = msgspec.json.decode(text, type=TopicColumns).given
        if text:
            schemas[topic] = text
    return replace(definition, schemas=schemas)


def _is_recorded(definition: Definition, topic: str) -> bool:
    return definition.schemas.get(topic, "").startswith("{")


def _columns(topic: str, definition: Definition, cluster: Cluster) -> TopicColumns:
    given = definition.schemas.get(topic)
    records = list(sample(cluster, topic))
    policy = cluster.configs("topic", topic)["cleanup.policy"].value or ""
    found = _captured(cluster, topic, records) or from_records(
        topic, records, is_compacted="compact" in policy
    )
    if given is not None:
        return with_given(topic, given, found)
    if found is None:
        raise BadView(
            f"topic {topic} has no records, so its columns are unknown",
            hint=f"name them: --schema '{topic}=id BIGINT NOT NULL, name STRING'; NOT NULL marks the key",
        )
    return found


def _captured(cluster: Cluster, topic: str, records: Sequence[Sampled]) -> TopicColumns | None:
    """By the schema that a capture of Headrace wrote."""
    from headrace.cdc.schemas import schema_of

    schema = schema_of(cluster, topic)
    if schema is None:
        return None
    table = schema.table
    columns = tuple(
        Column(
            name=each.name,
            form=connect_form(
                each.type, each.semantic, items=each.items and connect_form(each.items, each.semantic)
            ),
        )
        for each in table.columns
    )
    found = TopicColumns(topic=topic, kind="changes", columns=columns, key=table.key)
    return _with_unchanged(found, _connector(records))


def from_records(
    topic: str, records: Sequence[Sampled], *, is_compacted: bool = False
) -> TopicColumns | None:
    """By the records themselves. None if there are none with a value."""
    values = [(each.key, document) for each in records if (document := _object(each.value)) is not None]
    if not values:
        if any(each.value is not None for each in records):
            raise BadView(
                f"the values of topic {topic} are not JSON objects",
                hint="a view reads JSON and Debezium's change events; --script can read other formats",
            )
        return None
    envelopes = [_envelope(document) for _, document in values]
    if all(each is not None for each in envelopes):
        found = _of_changes(
            topic, [(key, each) for (key, _), each in zip(values, envelopes, strict=True) if each]
        )
        schema = next((s for _, d in reversed(values) if (s := _row_schema(d)) is not None), None)
        if schema is not None:
            found = replace(found, columns=tuple(map(_schema_column, schema)), notes=())
        return _with_unchanged(found, _connector(records))
    return _of_values(topic, values, is_compacted=is_compacted)


def with_given(topic: str, given: str, found: TopicColumns | None) -> TopicColumns:
    """The columns that the user names, in the form in which the topic has them."""
    named = ddl_columns(given, topic)
    if found is None:
        key = tuple(name for name, (_, is_required) in named.items() if is_required)
        columns = tuple(Column(name=name, form=plain(kind)) for name, (kind, _) in named.items())
        note = f"topic {topic} has no records yet: read as change events with the key ({', '.join(key)})"
        return TopicColumns(topic=topic, kind="changes", columns=columns, key=key, given=given, notes=(note,))
    forms = {each.name: each for each in found.columns}
    columns = tuple(
        Column(
            name=name,
            form=wanted_form(kind, forms[name].form if name in forms else None),
            may_be_unchanged=name in forms and forms[name].may_be_unchanged,
        )
        for name, (kind, _) in named.items()
    )
    missing = tuple(forms[name] for name in found.key if name not in named and name in forms)
    return replace(found, columns=(*columns, *missing), given=given, notes=())


def ddl_columns(text: str, topic: str) -> dict[str, tuple[str, bool]]:
    """Type and NOT NULL by column."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = sqlglot.parse_one(f"CREATE TABLE t ({text})", dialect="spark")
        defined = parsed.this.expressions if isinstance(parsed.this, exp.Schema) else []
    except SqlglotError as error:
        raise _bad_ddl(text, topic) from error
    found = {}
    for each in defined:
        if not isinstance(each, exp.ColumnDef) or each.kind is None:
            raise _bad_ddl(text, topic)
        is_required = any(isinstance(c.kind, exp.NotNullColumnConstraint) for c in each.constraints)
        found[each.name] = (each.kind.sql(dialect="spark"), is_required)
    if not found:
        raise _bad_ddl(text, topic)
    return found


def _bad_ddl(text: str, topic: str) -> BadView:
    return BadView(
        f"{text!r} are no columns of topic {topic}",
        hint="write them as in CREATE TABLE: id BIGINT NOT NULL, name STRING",
    )


def _of_changes(topic: str, records: Sequence[tuple[bytes | None, Mapping[str, Any]]]) -> TopicColumns:
    keys = [_key_object(key) for key, _ in records]
    key = next((tuple(each) for each in reversed(keys) if each), ())
    rows = [row for _, each in records for row in (each.get("before"), each.get("after")) if row]
    types = inferred_columns(rows)
    columns = tuple(Column(name=name, form=_inferred_form(kind)) for name, kind in types.items())
    return TopicColumns(
        topic=topic, kind="changes", columns=columns, key=key, notes=_inferred_notes(topic, types)
    )


def _of_values(
    topic: str, values: Sequence[tuple[bytes | None, Mapping[str, Any]]], *, is_compacted: bool
) -> TopicColumns:
    types = inferred_columns(document for _, document in values)
    columns = tuple(Column(name=name, form=plain(kind)) for name, kind in types.items())
    found = TopicColumns(
        topic=topic, kind="events", columns=columns, key=(), notes=_inferred_notes(topic, types)
    )
    if not is_compacted:
        return found
    fields = _key_object(values[-1][0])
    if fields and set(fields) <= set(types):
        return replace(found, kind="table", key=tuple(fields))
    texts = [(key or b"").decode(errors="replace") for key, _ in values]
    for name in types:
        if all(str(document.get(name)) == text for (_, document), text in zip(values, texts, strict=True)):
            return replace(found, kind="table", key=(name,), key_is_text=True)
    return replace(found, kind="table", key=(KEY,))


def _inferred_form(kind: str) -> Form:
    if kind.startswith("ARRAY<"):
        return Form(type=kind, read="STRING", expression=f"from_json({{}}, '{kind}')")
    return plain(kind)


def _inferred_notes(topic: str, types: Mapping[str, str]) -> tuple[str, ...]:
    shown = ", ".join(f"{name} {kind}" for name, kind in types.items())
    return (f"columns of {topic} by a sample of its records: {shown}",)


def _with_unchanged(found: TopicColumns, connector: str | None) -> TopicColumns:
    if connector != "postgresql":
        return found
    columns = tuple(
        replace(each, may_be_unchanged=each.form.read == "STRING" and each.name not in found.key)
        for each in found.columns
    )
    return replace(found, columns=columns)


def _connector(records: Sequence[Sampled]) -> str | None:
    for each in records:
        envelope = _envelope(_object(each.value) or {})
        if envelope is not None:
            name = (envelope.get("source") or {}).get("connector")
            return name if isinstance(name, str) else None
    return None


# Records


def _object(text: bytes | None) -> Mapping[str, Any] | None:
    try:
        found = msgspec.json.decode(text) if text is not None else None
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def _envelope(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found = document.get("payload") if isinstance(document.get("payload"), dict) else document
    assert found is not None
    has_row = any(isinstance(found.get(name), dict) for name in ("before", "after"))
    return found if isinstance(found.get("op"), str) and (has_row or found["op"] == "t") else None


def _key_object(key: bytes | None) -> Mapping[str, Any]:
    found = _object(key) or {}
    payload = found.get("payload")
    return payload if isinstance(payload, dict) and "schema" in found else found


def _row_schema(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]] | None:
    """The fields of the row in the schema that Debezium repeats in a record."""
    schema = document.get("schema")
    if not isinstance(schema, dict):
        return None
    for field in schema.get("fields") or ():
        if field.get("field") == "after":
            return list(field.get("fields") or ())
    return None


def _schema_column(field: Mapping[str, Any]) -> Column:
    return Column(name=str(field["field"]), form=_schema_form(field))


def _schema_form(field: Mapping[str, Any]) -> Form:
    items = field.get("items")
    return connect_form(
        str(field.get("type")),
        field.get("name"),
        parameters=field.get("parameters"),
        items=_schema_form(items) if isinstance(items, dict) else None,
    )
