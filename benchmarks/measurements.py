"""Rows, samples and goals of measurements."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum


class Side(StrEnum):
    HEADRACE = "headrace"
    KAFKA = "kafka"
    RABBITMQ_CLASSIC = "rabbitmq-classic"
    RABBITMQ_QUORUM = "rabbitmq-quorum"
    SPARK = "spark"  # the same work in PySpark, written by hand
    SPARK_ROWS = "spark-rows"  # with one call of transformWithState per key
    SPARK_PANDAS = "spark-pandas"  # with one call of transformWithStateInPandas per key
    FLINK = "flink"
    DEBEZIUM = "debezium"
    LUCENE = "lucene"
    STORM = "storm"
    STATSD = "statsd"  # the reference implementation, from npm
    KCAT = "kcat"
    FASTAPI = "fastapi"  # a bare route that produces with confluent-kafka
    KARAPACE = "karapace"  # its REST proxy
    BARE = "bare"  # a bare socket and a bare file: the limit of the machine


SIDE_NAMES = {
    Side.HEADRACE: "Headrace",
    Side.KAFKA: "Apache Kafka",
    Side.RABBITMQ_CLASSIC: "RabbitMQ, classic queue",
    Side.RABBITMQ_QUORUM: "RabbitMQ, quorum queue",
    Side.SPARK: "plain PySpark",
    Side.SPARK_ROWS: "a call per key, rows",
    Side.SPARK_PANDAS: "a call per key, pandas",
    Side.FLINK: "Apache Flink SQL",
    Side.DEBEZIUM: "Debezium",
    Side.LUCENE: "Lucene's monitor",
    Side.STORM: "Apache Storm",
    Side.STATSD: "statsd (npm)",
    Side.KCAT: "kcat",
    Side.FASTAPI: "bare FastAPI route",
    Side.KARAPACE: "Karapace",
    Side.BARE: "bare",
}
PEERS = tuple(side for side in Side if side not in (Side.HEADRACE, Side.BARE))


class Unit(StrEnum):
    RECORDS_PER_S = "records/s"
    MESSAGES_PER_S = "messages/s"
    PACKETS_PER_S = "packets/s"
    TRANSACTIONS_PER_S = "transactions/s"
    DOCUMENTS_PER_S = "documents/s"
    MEGABYTES_PER_S = "MB/s"
    MILLISECONDS = "ms"
    SECONDS = "s"
    KILOBYTES = "KB"
    MEGABYTES = "MB"
    PERCENT_OF_A_CORE = "% of a core"

    @property
    def more_is_better(self) -> bool:
        return self.value.endswith("/s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A bound on one figure of Headrace, or on its ratio to Kafka, the best peer, the bare peer or another row.

    `aim` is stricter than the bound. The report mentions if it is reached, but it can't fail. It may be the only bound.
    """

    at_least: float | None = None
    at_most: float | None = None
    aim: float | None = None
    against_kafka: bool = False
    against_best: bool = False
    against_bare: bool = False
    against_row: str | None = None

    def text(self) -> str:
        is_aim = self.at_least is None and self.at_most is None
        if is_aim:
            bound = f"aim {self.aim:g}"
        else:
            bound = f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"
        if self.against_kafka:
            bound += " × Kafka"
        elif self.against_best:
            bound += " × the best"
        elif self.against_bare:
            bound += " × bare"
        elif self.against_row:
            bound += f" × {self.against_row}"
        return bound + (f", aim {self.aim:g}" if self.aim is not None and not is_aim else "")

    def verdict(self, figure: float) -> str:
        if self.at_least is not None and figure < self.at_least:
            return "not reached"
        if self.at_most is not None and figure > self.at_most:
            return "not reached"
        if self.aim is not None:
            if self.at_least is None and self.at_most is None:
                return "aim reached" if figure >= self.aim else "below the aim"
            aimed = figure >= self.aim if self.at_least is not None else figure <= self.aim
            return "aim reached" if aimed else "reached"
        return "reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table. `key` is its name on the command line and in the JSON."""

    key: str
    what: str
    unit: Unit
    goals: tuple[Goal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement, with the CPU time of the broker, which other work on the machine hardly changes."""

    value: float
    broker_cpu_s_per_million: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    median: float
    least: float
    most: float
    rounds: int
    broker_cpu_s_per_million: float | None


def summarize(samples: list[Sample]) -> Summary:
    values = [sample.value for sample in samples]
    cpu = [s.broker_cpu_s_per_million for s in samples if s.broker_cpu_s_per_million is not None]
    return Summary(
        median=statistics.median(values),
        least=min(values),
        most=max(values),
        rounds=len(values),
        broker_cpu_s_per_million=statistics.median(cpu) if cpu else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalResult:
    text: str
    figure: float
    verdict: str


class Measurements:
    """All samples of a run, by row and side, and its failures."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, Side], list[Sample]] = defaultdict(list)
        self.failures: list[str] = []

    def add(self, row_key: str, side: Side, sample: Sample) -> None:
        self._samples[row_key, side].append(sample)

    def samples(self, row_key: str, side: Side) -> list[Sample]:
        return self._samples.get((row_key, side), [])

    def summary(self, row_key: str, side: Side) -> Summary | None:
        samples = self.samples(row_key, side)
        return summarize(samples) if samples else None

    def ratio(self, row_key: str, side: Side = Side.KAFKA) -> float | None:
        """The median of Headrace divided by that of `side`."""
        ours, theirs = self.summary(row_key, Side.HEADRACE), self.summary(row_key, side)
        if ours is None or theirs is None:
            return None
        return _divide(ours.median, theirs.median)

    def best_peer(self, row: Row) -> Side | None:
        """The measured peer with the best median."""
        medians = {peer: summary.median for peer in PEERS if (summary := self.summary(row.key, peer))}
        if not medians:
            return None
        return (max if row.unit.more_is_better else min)(medians, key=lambda peer: medians[peer])

    def results(self, row: Row) -> list[GoalResult]:
        """The result of each goal of the row. A goal is skipped if its other side was not measured."""
        results = []
        for goal in row.goals:
            figure = self._figure(row, goal)
            if figure is not None:
                results.append(GoalResult(text=goal.text(), figure=figure, verdict=goal.verdict(figure)))
        return results

    def _figure(self, row: Row, goal: Goal) -> float | None:
        if goal.against_kafka:
            return self.ratio(row.key)
        if goal.against_best:
            best = self.best_peer(row)
            return None if best is None else self.ratio(row.key, best)
        if goal.against_bare:
            return self.ratio(row.key, Side.BARE)
        ours = self.summary(row.key, Side.HEADRACE)
        if ours is None:
            return None
        if goal.against_row is None:
            return ours.median
        other = self.summary(goal.against_row, Side.HEADRACE)
        return None if other is None else _divide(ours.median, other.median)


def _divide(ours: float, theirs: float) -> float:
    """Two zeros are equal: a tool with whole milliseconds may measure 0 for both sides."""
    if theirs == 0:
        return 1.0 if ours == 0 else float("inf")
    return ours / theirs
