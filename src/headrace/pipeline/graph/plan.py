"""What a job does, as steps read from Spark's analysed plan: sources, stateful steps, the rest.

This module answers three questions: whether a checkpoint still fits the plan, which output mode
suits, and what prevents real-time mode. Only this module knows the names of Spark's plan nodes.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.pipeline.errors import BadJob
from headrace.pipeline.files import replace_text
from headrace.pipeline.source import heartbeats
from headrace.pipeline.source.spec import SOURCE_OPTION, SourceSpec
from headrace.plan_names import MERGE_ALIAS, OPERATOR_ALIAS, WATERMARK_DELAY, OperatorMark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FIELDS_MAX = 1_000
"""Spark truncates the text of wide steps; two steps that differ after that would look the same."""

_EXPRESSION_IDS = re.compile(r"#\d+L?(?=\W|$)")
_OBJECT_IDS = re.compile(r"@[0-9a-f]{4,}\b")
_WATERMARKS = re.compile(r"-T\d+ms\b")  # behind a column's name; the delay does not change the state
_UUIDS = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")

_STATEFUL = {
    "Aggregate": "aggregate",
    "Deduplicate": "deduplicate",
    "DeduplicateWithinWatermark": "deduplicate within the watermark",
    "Distinct": "distinct",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "GlobalLimit": "limit",
    "TransformWithState": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState in Python",
}
_PYTHON_STEPS = {
    "ArrowEvalPython": "a Python function",
    "BatchEvalPython": "a Python function",
    "FlatMapCoGroupsInArrow": "cogroup",
    "FlatMapCoGroupsInPandas": "cogroup",
    "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "MapInArrow": "mapInArrow",
    "MapInPandas": "mapInPandas",
    "TransformWithStateInPySpark": "transformWithState in Python",
}
# Spark's list for real-time mode, as far as DataFrames make these nodes. A join here is a join with a table.
_REALTIME_STEPS = frozenset(
    {
        "CollectMetrics",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "Generate",
        "Join",
        "Project",
        "ResolvedHint",
        "SubqueryAlias",
        "Union",
        "View",
    }
)
_KAFKA_OPTIONS = (SOURCE_OPTION, "subscribe", "subscribepattern", "startingoffsets", "endingoffsets")
_OWN_COLUMNS = "__headrace_"
"""Prefix of the internal columns of `read_topic`."""
_OWN_PACKING = re.compile(r"\b(?:bucket|payload)\b.*\bpayload\b")
"""Rows as operators pack them between two of their steps."""
_PYTHON_EXPRESSIONS = frozenset({"PythonUDF", "PythonUDAF", "PythonUDTF"})
# Nodes that change no row.
_UNSEEN = frozenset({"CollectMetrics", "SubqueryAlias", "View"})


class StepKind(enum.StrEnum):
    SOURCE = "source"
    STATEFUL = "stateful"
    STATELESS = "stateless"


class Step(Struct, frozen=True, kw_only=True):
    kind: StepKind
    operator: str
    detail: str

    def __str__(self) -> str:
        return f"{self.operator}: {self.detail}" if self.detail else self.operator

    def in_words(self) -> str | None:
        """The step in words; None for internal steps of `read_topic` and operators."""
        if _OWN_COLUMNS in self.detail or _OWN_PACKING.search(self.detail):
            return None
        if self.detail.partition("(")[0].lower() == self.operator:
            return self.detail
        name, _, rest = self.detail.partition(" ")
        match name:
            case "Aggregate":
                keys, _, results = rest.partition("], [")
                return f"aggregate by {keys.strip('[]') or 'nothing'}: {results.removesuffix(']')}"
            case "EventTimeWatermark":
                return f"watermark on {rest.strip(' ,')}"
            case "Filter":
                return f"filter {rest}"
            case "Project":
                return f"select {rest.strip('[]')}"
            case "Join":
                return f"join {rest}"
            case _ if self.kind is StepKind.STATELESS:
                return self.detail
        return f"{self.operator} {self.detail}"


class SourceStep(Struct, frozen=True, kw_only=True):
    """A source in the plan; `spec` is set if `read_topic` made the source."""

    description: str
    reads: tuple[str, ...]
    spec: SourceSpec | None
    span: tuple[str, str] | None = None
    """start and end offsets of a bounded source, in Spark's notation"""


class Plan(Struct, frozen=True, kw_only=True):
    steps: tuple[Step, ...]
    sources: tuple[SourceStep, ...]
    is_aggregated: bool
    is_watermarked: bool
    """every aggregate groups by an event time with a watermark, so that its groups are complete at some point"""
    marks: tuple[OperatorMark, ...] = ()
    watermark_policies: tuple[str, ...] = ()
    """the watermark policies of merged sources, in Spark's words"""

    @property
    def reads(self) -> tuple[str, ...]:
        """What the job reads, in the same notation as a sink's `target`."""
        return tuple(dict.fromkeys(name for source in self.sources for name in source.reads))

    @property
    def is_stateful(self) -> bool:
        return any(step.kind is StepKind.STATEFUL for step in self.steps)

    def save(self, path: Path) -> None:
        steps = [{"kind": step.kind, "operator": step.operator, "detail": step.detail} for step in self.steps]
        replace_text(path, json.dumps({"version": 1, "steps": steps}, indent=1))


def read(rows: DataFrame) -> Plan:
    """The plan of a DataFrame, from its end to its sources."""
    nodes = list(_walk(rows._jdf.queryExecution().analyzed()))
    sources = tuple(_source(node) for node in nodes if _is_source(node))
    named = [(node, node.nodeName()) for node in nodes]
    aliased = [(node, name, _alias(node, name)) for node, name in named]
    aliases = [alias for _, _, alias in aliased]
    aggregates = [node for node, name in named if name == "Aggregate" and node.isStreaming()]
    return Plan(
        steps=tuple(
            _step(node, name, alias)
            for node, name, alias in aliased
            if name not in _UNSEEN or alias.startswith((OPERATOR_ALIAS, MERGE_ALIAS))
        ),
        sources=sources,
        is_aggregated=bool(aggregates),
        is_watermarked=all(_groups_by_event_time(node) for node in aggregates),
        marks=tuple(OperatorMark.from_alias(alias) for alias in aliases if alias.startswith(OPERATOR_ALIAS)),
        watermark_policies=tuple(
            dict.fromkeys(
                alias.removeprefix(MERGE_ALIAS) for alias in aliases if alias.startswith(MERGE_ALIAS)
            )
        ),
    )


def saved_steps(path: Path) -> tuple[Step, ...] | None:
    """The steps of the plan that wrote the checkpoint; None if they are unknown."""
    try:
        kept = json.loads(path.read_text())
        return tuple(
            Step(kind=StepKind(each["kind"]), operator=each["operator"], detail=each["detail"])
            for each in kept["steps"]
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise HeadraceError(
            f"{path} is not the plan of a job",
            hint="remove it: the next start writes it again, without a comparison",
        ) from error


def check_fits(name: str, before: Sequence[Step], after: Sequence[Step]) -> tuple[str, ...]:
    """Raise if the state or the offsets of a checkpoint belong to other steps. Returns notes on harmless changes."""
    for kind in (StepKind.SOURCE, StepKind.STATEFUL):
        difference = _first_difference(
            [step for step in before if step.kind is kind], [step for step in after if step.kind is kind]
        )
        if difference:
            raise BadJob(
                f"job {name}: its checkpoint was made by another plan. {difference}",
                hint=f"`--rebuild` clears the target and replays from the start; `headrace job reset {name}` deletes "
                "the checkpoint and keeps the target; or give the changed job another name",
            )
    difference = _first_difference(
        [step for step in before if step.kind is StepKind.STATELESS],
        [step for step in after if step.kind is StepKind.STATELESS],
    )
    return (f"the plan has changed, and applies from the next batch on. {difference}",) if difference else ()


def _first_difference(before: Sequence[Step], after: Sequence[Step]) -> str:
    for was, now in zip(before, after, strict=False):
        if was != now:
            return f"A {was.kind} step was `{was}` and is now `{now}`"
    if len(before) > len(after):
        return f"A {before[len(after)].kind} step is missing: `{before[len(after)]}`"
    if len(after) > len(before):
        return f"A {after[len(before)].kind} step is new: `{after[len(before)]}`"
    return ""


def realtime_obstacles(rows: DataFrame) -> list[str]:
    """What Spark's real-time mode cannot run, with the step of each."""
    found: list[str] = []
    for node in _walk(rows._jdf.queryExecution().analyzed()):
        name = node.nodeName()
        if name in _PYTHON_STEPS:
            found.append(f"{_PYTHON_STEPS[name]} (Python runs in batches)")
        elif name == "Join" and _is_stream_join(node):
            found.append(f"a join of two streams ({_plain(node.simpleString(_FIELDS_MAX))})")
        elif node.isStreaming() and name not in _REALTIME_STEPS and not _is_source(node):
            found.append(f"{_STATEFUL.get(name, name.lower())} ({_plain(node.simpleString(_FIELDS_MAX))})")
        else:
            found += [f"the Python function {each} in {name.lower()}" for each in _python_functions(node)]
        if _is_source(node) and _format(node) not in {"kafka", None}:
            found.append(f"the source {_source(node).description}, which is no topic")
    return found


def _walk(node: Any) -> Iterator[Any]:
    yield node
    children = node.children()
    for index in range(children.size()):
        yield from _walk(children.apply(index))


def _alias(node: Any, name: str) -> str:
    return str(node.alias()) if name == "SubqueryAlias" else ""


def _step(node: Any, name: str, alias: str) -> Step:
    if alias.startswith(OPERATOR_ALIAS):
        mark = OperatorMark.from_alias(alias)
        return Step(kind=StepKind.STATEFUL, operator=mark.operator, detail=mark.kept_for)
    if alias.startswith(MERGE_ALIAS):
        # Spark keeps the policy in the checkpoint, and does not accept another one later.
        policy = alias.removeprefix(MERGE_ALIAS)
        return Step(
            kind=StepKind.SOURCE, operator="merge", detail=f"merge with the {policy} of the watermarks"
        )
    if _is_source(node):
        return Step(kind=StepKind.SOURCE, operator="read", detail=_source(node).description)
    detail = _plain(node.simpleString(_FIELDS_MAX))
    if node.isStreaming() and (name in _STATEFUL or (name == "Join" and _is_stream_join(node))):
        return Step(kind=StepKind.STATEFUL, operator=_STATEFUL.get(name, "join of streams"), detail=detail)
    return Step(kind=StepKind.STATELESS, operator=name, detail=detail)


def _plain(text: str) -> str:
    """The text without the numbers and addresses that differ in every run."""
    for varying in (_EXPRESSION_IDS, _OBJECT_IDS, _UUIDS, _WATERMARKS):
        text = varying.sub("", text)
    return text.strip().removeprefix("~")  # Spark's sign for a stream


def _is_source(node: Any) -> bool:
    return node.nodeName() in {"StreamingRelationV2", "StreamingRelation", "StreamingExecutionRelation"} or (
        node.children().isEmpty()
        and node.getClass().getSimpleName() in {"DataSourceV2Relation", "LogicalRelation"}
    )


def _format(node: Any) -> str | None:
    kind = node.getClass().getSimpleName()
    if kind == "StreamingRelationV2":
        return str(node.sourceName())
    if kind == "StreamingRelation":
        return str(node.sourceName())
    return None


def _options(node: Any) -> dict[str, str]:
    kind = node.getClass().getSimpleName()
    if kind == "StreamingRelationV2":
        return dict(node.extraOptions().asCaseSensitiveMap())
    if kind == "DataSourceV2Relation":
        return dict(node.options().asCaseSensitiveMap())
    if kind == "LogicalRelation" and node.relation().getClass().getSimpleName() == "KafkaRelation":
        return _kafka_relation_options(node.relation())
    return {}


def _kafka_relation_options(relation: Any) -> dict[str, str]:
    """Bounded topics are a relation of Spark's first kind, whose options are private."""
    field = relation.getClass().getDeclaredField("sourceOptions")
    field.setAccessible(True)
    options = field.get(relation)
    return {name: options.get(name).get() for name in _KAFKA_OPTIONS if options.contains(name)}


def _source(node: Any) -> SourceStep:
    options = {name.lower(): text for name, text in _options(node).items()}
    made = options.get(SOURCE_OPTION)
    spec = SourceSpec.from_option(made) if made is not None else None
    if _format(node) == heartbeats.FORMAT:
        return SourceStep(description="beats of a source that may be idle", reads=(), spec=None)
    reads = _reads(options, spec) or (_format(node) or _plain(node.simpleString(_FIELDS_MAX)),)
    ends = (options.get("startingoffsets", ""), options.get("endingoffsets", ""))
    return SourceStep(
        description=", ".join(reads),
        reads=reads,
        spec=spec,
        span=ends if all(ends) and spec and spec.bounded else None,
    )


def _reads(options: Mapping[str, str], spec: SourceSpec | None) -> tuple[str, ...]:
    if spec is not None:
        pattern, topics = spec.pattern, spec.topics
    else:
        pattern, topics = (
            options.get("subscribepattern"),
            tuple(filter(None, options.get("subscribe", "").split(","))),
        )
    if pattern is not None:
        return (f"topics {pattern}",)
    return tuple(f"topic {topic}" for topic in sorted(topics))


def _groups_by_event_time(aggregate: Any) -> bool:
    """Whether the watermark ends the groups of the aggregate; a watermark on another column is not enough."""
    keys = aggregate.groupingExpressions()
    inside = (part for index in range(keys.size()) for part in _walk(keys.apply(index)))
    return any(
        part.metadata().contains(WATERMARK_DELAY)
        for part in inside
        if part.getClass().getSimpleName() in {"AttributeReference", "Alias"}
    )


def _is_stream_join(node: Any) -> bool:
    children = node.children()
    return all(children.apply(index).isStreaming() for index in range(children.size()))


def _python_functions(node: Any) -> list[str]:
    expressions = node.expressions()
    inside = (part for index in range(expressions.size()) for part in _walk(expressions.apply(index)))
    return [str(part.name()) for part in inside if part.getClass().getSimpleName() in _PYTHON_EXPRESSIONS]
