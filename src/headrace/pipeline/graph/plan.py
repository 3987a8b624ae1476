"""What a job does, as steps read from Spark's analysed plan: sources, stateful steps, the rest.

Callers use them to decide whether a checkpoint still fits the plan, which output mode fits, and what prevents real-time
mode. Only this module knows the names of Spark's plan nodes.
"""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.operators.spark_plans import analyzed, elements, kind_of
from headrace.pipeline.errors import BadJob
from headrace.pipeline.folders.folder import Folder, write_json
from headrace.pipeline.source import heartbeats
from headrace.pipeline.source.files_spec import FILES_OPTION, FilesSpec
from headrace.pipeline.source.spec import SOURCE_OPTION, SourceSpec
from headrace.plan_names import EMITTED_TIME, MERGE_ALIAS, OPERATOR_ALIAS, WATERMARK_DELAY, OperatorMark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FIELDS_MAX = 1_000
"""Spark truncates the text of wide steps; two steps that differ after that would look the same."""

_EXPRESSION_IDS = re.compile(r"#\d+L?(?=\W|$)")
_OBJECT_IDS = re.compile(r"@[0-9a-f]{4,}\b")
_WATERMARKS = re.compile(r"-T\d+ms\b")  # after a column's name; the delay does not change the state
_WORDS = re.compile(r"[\w/]+|\W")
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
# Spark's list for real-time mode, as far as DataFrames create these nodes. A join here is a join with a table.
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
_WINDOW_TYPE = "struct<start:timestamp,end:timestamp>"
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
    keeps: str | None = None
    """what its state depends on besides `detail`: how its windows, its keys or its expiry are computed; None if an
    earlier version saved the step"""
    columns: tuple[str, ...] = ()
    """the columns that its state holds in this order"""

    def fits(self, before: Step) -> bool:
        """Whether the state of the step before is a state of this one."""
        if (self.kind, self.operator, self.detail) != (before.kind, before.operator, before.detail):
            return False
        if before.keeps is not None and self.keeps != before.keeps:
            return False
        # Spark compares their number and their types, and restores them by position.
        in_both = set(self.columns) & set(before.columns)
        return [name for name in self.columns if name in in_both] == [
            name for name in before.columns if name in in_both
        ]

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
                # Spark prints no brackets for an aggregate without keys.
                keys, results = rest.split("], [", 1) if "], [" in rest else ("", rest.removeprefix("["))
                return f"aggregate by {keys.strip('[]') or 'nothing'}: {results.removesuffix(']')}"
            case "EventTimeWatermark":
                return f"watermark on {rest.strip(' ,')}"
            case "Filter" | "Join":
                return f"{name.lower()} {rest}"
            case "Project":
                return f"select {rest.strip('[]')}"
            case _ if self.kind is StepKind.STATELESS:
                return self.detail
        return f"{self.operator} {self.detail}"


class SourceStep(Struct, frozen=True, kw_only=True):
    """A source in the plan; `spec` is set if `read_topic` created the source, `files` if `read_files` did."""

    description: str
    reads: tuple[str, ...]
    spec: SourceSpec | None
    span: tuple[str, str] | None = None
    """start and end offsets of a bounded source, in Spark's notation"""
    files: FilesSpec | None = None
    found_files: tuple[str, ...] = ()
    """the addresses of the files of a bounded source"""


class LaggingStep(Struct, frozen=True, kw_only=True):
    detail: str
    lag_us: int
    """how long after the watermark the operator before emits rows"""


class Plan(Struct, frozen=True, kw_only=True):
    steps: tuple[Step, ...]
    sources: tuple[SourceStep, ...]
    is_aggregated: bool
    is_watermarked: bool
    """every aggregate groups by an event time with a watermark, so that its groups are complete at some point"""
    marks: tuple[OperatorMark, ...] = ()
    watermark_policies: tuple[str, ...] = ()
    """the watermark policies of merged sources, in Spark's words"""
    lagging: tuple[LaggingStep, ...] = ()
    """Spark's own stateful steps that would drop rows as late which an operator emits after the watermark"""

    @property
    def reads(self) -> tuple[str, ...]:
        """What the job reads, in the same notation as a sink's `target`."""
        return tuple(dict.fromkeys(name for source in self.sources for name in source.reads))

    @property
    def is_stateful(self) -> bool:
        return any(step.kind is StepKind.STATEFUL for step in self.steps)

    def save(self, folder: Folder, name: str) -> None:
        write_json(folder, name, SavedPlan(steps=self.steps))


class SavedPlan(Struct, frozen=True, kw_only=True):
    """The content of `plan.json`."""

    version: int = 1
    steps: tuple[Step, ...]


def read(rows: DataFrame) -> Plan:
    """The plan of a DataFrame, from its end to its sources."""
    nodes = list(_walk(analyzed(rows)))
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
        lagging=tuple(
            LaggingStep(detail=_plain(node.simpleString(_FIELDS_MAX)), lag_us=lag_us)
            for node, name in named
            if (lag_us := _lag_us(node, name)) > 0
        ),
    )


def saved_steps(folder: Folder, name: str) -> tuple[Step, ...] | None:
    """The steps of the plan that wrote the checkpoint; None if they are unknown."""
    try:
        return msgspec.json.decode(folder.read(name), type=SavedPlan).steps
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise HeadraceError(
            f"{folder.address}/{name} is not the plan of a job",
            hint="remove it: the next start writes it again, without a comparison",
        ) from error


def check_fits(name: str, before: Sequence[Step], after: Sequence[Step]) -> tuple[str, ...]:
    """Raise if the state or the offsets of a checkpoint belong to other steps. Returns notes on harmless changes."""
    notes: tuple[str, ...] = ()
    for kind in StepKind:
        difference = _first_difference(
            [step for step in before if step.kind is kind], [step for step in after if step.kind is kind]
        )
        if difference and kind is StepKind.STATELESS:
            notes = (f"the plan has changed, and applies from the next batch on. {difference}",)
        elif difference:
            raise BadJob(
                f"job {name}: its checkpoint was created by another plan. {difference}",
                hint=f"`--rebuild` clears the target and replays from the start; `headrace job reset {name}` deletes "
                "the checkpoint and keeps the target; or give the changed job another name",
            )
    return notes


def _first_difference(before: Sequence[Step], after: Sequence[Step]) -> str:
    for was, now in itertools.zip_longest(before, after):
        if was is None:
            return f"A {now.kind} step is new: `{now}`"
        if now is None:
            return f"A {was.kind} step is missing: `{was}`"
        if not now.fits(was):
            return f"A {was.kind} step was `{was}` and is now `{now}`{_details(was, now)}"
    return ""


def _details(was: Step, now: Step) -> str:
    """What differs, if the texts of the steps are equal."""
    if str(was) != str(now):
        return ""
    if was.keeps is not None and was.keeps != now.keeps:
        words = itertools.zip_longest(*(_WORDS.findall(each.keeps or "") for each in (was, now)))
        here, there = next(pair for pair in words if pair[0] != pair[1])
        return f", computed with {there} instead of {here}"
    return f", with its columns in the order {', '.join(now.columns)} instead of {', '.join(was.columns)}"


def realtime_obstacles(rows: DataFrame) -> list[str]:
    """What Spark's real-time mode cannot run, with the step of each."""
    found: list[str] = []
    for node in _walk(analyzed(rows)):
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
    for child in elements(node.children()):
        yield from _walk(child)


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
        return Step(
            kind=StepKind.STATEFUL,
            operator=_STATEFUL.get(name, "join of streams"),
            detail=detail,
            keeps=_keeps(node, name),
            columns=_side_columns(node) if name == "Join" else (),
        )
    return Step(kind=StepKind.STATELESS, operator=name, detail=detail)


def _keeps(node: Any, name: str) -> str:
    if name == "DeduplicateWithinWatermark":
        delays = (_metadata_text(each, WATERMARK_DELAY) for each in elements(node.child().output()))
        return f"delay {next(filter(None, delays), 'unknown')} ms"
    if name == "Join":
        sides = {each: made for side in elements(node.children()) for each, made in _made_in(side).items()}
        parts = _walk(node.condition().get()) if node.condition().isDefined() else ()
        used = {int(part.exprId().id()) for part in parts if _is_reference(part)}
        return "; ".join(sides[each] for each in sorted(used) if each in sides)
    keys = elements(node.groupingExpressions()) if name == "Aggregate" else ()
    return "; ".join(
        text for key in keys for part in _walk(key) if _is_window(part) for text in _window_texts(node, part)
    )


def _window_texts(node: Any, window: Any) -> Iterator[str]:
    """How the nodes below this one compute a window column."""
    for below in _walk(node.child()):
        made = _made_in(below).get(int(window.exprId().id()))
        if made is None:
            continue
        yield made
        for part in (part for each in elements(below.expressions()) for part in _walk(each)):
            if _is_window(part) and part.exprId().id() != window.exprId().id():
                yield from _window_texts(below, part)
        return


def _made_in(node: Any) -> dict[int, str]:
    """The columns that a node computes, by their expression ids."""
    match node.nodeName():
        case "Project":
            aliases = [each for each in elements(node.projectList()) if kind_of(each) == "Alias"]
            return {int(each.exprId().id()): _plain(each.child().toString()) for each in aliases}
        case "Expand":
            return {
                int(each.exprId().id()): "; ".join(
                    _plain(projection.apply(number).toString()) for projection in elements(node.projections())
                )
                for number, each in enumerate(elements(node.output()))
                if _is_window(each)
            }
        case "Generate":
            text = _plain(node.generator().toString())
            return {int(each.exprId().id()): text for each in elements(node.generatorOutput())}
    return {}


def _side_columns(join: Any) -> tuple[str, ...]:
    """The columns of both sides, by the names that they had before the join gave them its own."""
    names = []
    for side in elements(join.children()):
        made = _made_in(side)
        names += [made.get(int(each.exprId().id()), str(each.name())) for each in elements(side.output())]
    return tuple(names)


def _is_reference(expression: Any) -> bool:
    return kind_of(expression) == "AttributeReference"


def _is_window(expression: Any) -> bool:
    return _is_reference(expression) and str(expression.dataType().simpleString()) == _WINDOW_TYPE


def _metadata_text(attribute: Any, key: str) -> str | None:
    metadata = attribute.metadata()
    return str(metadata.getLong(key)) if metadata.contains(key) else None


def _plain(text: str) -> str:
    """The text without the numbers and addresses that differ in every run."""
    for varying in (_EXPRESSION_IDS, _OBJECT_IDS, _UUIDS, _WATERMARKS):
        text = varying.sub("", text)
    return text.strip().removeprefix("~")  # Spark's sign for a stream


def _is_source(node: Any) -> bool:
    return node.nodeName() in {"StreamingRelationV2", "StreamingRelation", "StreamingExecutionRelation"} or (
        node.children().isEmpty() and kind_of(node) in {"DataSourceV2Relation", "LogicalRelation"}
    )


def _format(node: Any) -> str | None:
    is_named = kind_of(node) in {"StreamingRelationV2", "StreamingRelation"}
    return str(node.sourceName()) if is_named else None


def _options(node: Any) -> dict[str, str]:
    kind = kind_of(node)
    if kind == "StreamingRelationV2":
        return dict(node.extraOptions().asCaseSensitiveMap())
    if kind == "DataSourceV2Relation":
        return dict(node.options().asCaseSensitiveMap())
    if kind == "LogicalRelation" and kind_of(node.relation()) == "KafkaRelation":
        return _kafka_relation_options(node.relation())
    if kind == "LogicalRelation" and _is_of_files(node):
        return _files_option(node.relation().options())
    if kind == "StreamingRelation":
        return _files_option(node.dataSource().options())
    return {}


def _is_of_files(node: Any) -> bool:
    return kind_of(node.relation()) == "HadoopFsRelation"


def _files_option(options: Any) -> dict[str, str]:
    """Of a Scala map."""
    return {FILES_OPTION: str(options.apply(FILES_OPTION))} if options.contains(FILES_OPTION) else {}


def _kafka_relation_options(relation: Any) -> dict[str, str]:
    """Bounded topics are a relation of Spark's first kind, whose options are private."""
    field = relation.getClass().getDeclaredField("sourceOptions")
    field.setAccessible(True)
    options = field.get(relation)
    return {name: options.get(name).get() for name in _KAFKA_OPTIONS if options.contains(name)}


def _source(node: Any) -> SourceStep:
    options = {name.lower(): text for name, text in _options(node).items()}
    option = options.get(SOURCE_OPTION)
    spec = SourceSpec.from_option(option) if option is not None else None
    if FILES_OPTION in options:
        return _files_source(node, FilesSpec.from_option(options[FILES_OPTION]))
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


def _files_source(node: Any, files: FilesSpec) -> SourceStep:
    found = node.relation().inputFiles() if files.bounded else ()
    return SourceStep(
        description=files.reads,
        reads=(files.reads,),
        spec=None,
        files=files,
        found_files=tuple(map(str, found)),
    )


def _reads(options: Mapping[str, str], spec: SourceSpec | None) -> tuple[str, ...]:
    pattern = spec.pattern if spec is not None else options.get("subscribepattern")
    if pattern is not None:
        return (f"topics {pattern}",)
    topics = spec.topics if spec is not None else filter(None, options.get("subscribe", "").split(","))
    return tuple(f"topic {topic}" for topic in sorted(topics))


def _groups_by_event_time(aggregate: Any) -> bool:
    """Whether the watermark ends the groups of the aggregate; a watermark on another column is not enough."""
    return any(
        part.metadata().contains(WATERMARK_DELAY)
        for key in elements(aggregate.groupingExpressions())
        for part in _walk(key)
        if kind_of(part) in {"AttributeReference", "Alias"}
    )


def _lag_us(node: Any, name: str) -> int:
    """How long after the watermark rows arrive at a step of Spark's that drops late rows."""
    if not node.isStreaming() or not (name in _STATEFUL or (name == "Join" and _is_stream_join(node))):
        return 0
    if name == "Aggregate":
        parts = (part for key in elements(node.groupingExpressions()) for part in _walk(key))
        watched = [part for part in parts if _is_reference(part)]
    elif name == "Deduplicate":
        watched = list(elements(node.keys()))
    else:
        watched = [each for child in elements(node.children()) for each in elements(child.output())]
    lags = (_emitted_lag_us(each.metadata()) for each in watched)
    return max(lags, default=0)


def _emitted_lag_us(metadata: Any) -> int:
    if not metadata.contains(WATERMARK_DELAY) or not metadata.contains(EMITTED_TIME):
        return 0
    return int(metadata.getMetadata(EMITTED_TIME).getLong("lag_us"))


def _is_stream_join(node: Any) -> bool:
    return all(child.isStreaming() for child in elements(node.children()))


def _python_functions(node: Any) -> list[str]:
    return [
        str(part.name())
        for expression in elements(node.expressions())
        for part in _walk(expression)
        if kind_of(part) in _PYTHON_EXPRESSIONS
    ]
