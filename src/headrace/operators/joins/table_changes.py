"""The changes of a table that is beside a stream: from when each is valid, whether it deletes its entry, and the order
of changes at one time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.operators.joins.enrich_step import ALWAYS_US
from headrace.operators.operator import BadOperator, event_time_column, time_us
from headrace.operators.tables.changelog import OFFSET
from headrace.operators.tables.columns import DELETIONS
from headrace.operators.tables.weighted import OP
from headrace.plan_names import CHANGE_TIME, EVENT_TIME, WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DROPPED_HASH_BITS = 2
"""The order of changes has 62 bits of a hash, below the bit that sorts additions after deletions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChanges:
    """`time` and `deleted` are the settings of the operator; `time_field` is the name of the first one."""

    table: DataFrame
    operator: str
    time: str | None
    time_field: str
    deleted: str | None
    is_latest: bool

    @property
    def has_op(self) -> bool:
        """Whether the table has an `op` of changes. A column of this name that is not a string is the user's."""
        from pyspark.sql.types import StringType

        return OP in self.table.columns and isinstance(self.table.schema[OP].dataType, StringType)

    def since_us(self) -> Column:
        """The time from which each entry is valid."""
        from pyspark.sql import functions as F

        time = self._time()
        always = F.lit(ALWAYS_US)
        return always if time is None else F.coalesce(time_us(time), always)

    def _time(self) -> str | None:
        """None for the latest entries of a bounded table without times: its rows are the entries."""
        time, schema = self.time, self.table.schema
        is_declared = any(
            each.metadata.get(EVENT_TIME) or WATERMARK_DELAY in each.metadata for each in schema.fields
        )
        if time is None and not is_declared and CHANGE_TIME in schema.names:
            time = CHANGE_TIME
        if time is None and not is_declared and not self.table.isStreaming:
            if self.is_latest:
                return None
            raise BadOperator(
                self.operator,
                self.time_field,
                "is not set, and no column of the table is declared as its time",
                hint=f'set {self.time_field}="the column", or as_of="latest" if the table has no versions',
            )
        return event_time_column(self.table, time, operator=self.operator, field=self.time_field)

    def is_deleted(self) -> Column:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import evaluated_type

        if self.deleted is None:
            found = F.col(OP).isin(*DELETIONS) if self.has_op else F.lit(False)
            return F.coalesce(found, F.lit(False))
        found = F.coalesce(F.expr(self.deleted), F.lit(False))
        problem = f"is {self.deleted!r}"
        kind = evaluated_type(self.table, found, operator=self.operator, field="deleted", problem=problem)
        if kind.simpleString() != "boolean":
            raise BadOperator(
                self.operator,
                "deleted",
                f"{problem}, which is {kind.simpleString()}, not boolean",
                hint='set a condition such as "name is null"',
            )
        return found

    def sequence(self) -> Column:
        """The order of changes with equal key and time: the order of the topic, or else any stable order."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import LongType

        schema = self.table.schema
        if OFFSET in schema.names and isinstance(schema[OFFSET].dataType, LongType):
            return F.coalesce(F.col(OFFSET), F.lit(0).cast("bigint"))
        # Spark can't hash maps, not even nested ones.
        hashed = [F.col(f"`{each.name}`") for each in schema if "map<" not in each.dataType.simpleString()]
        # Additions sort after deletions: an update may consist of both.
        addition = F.when(self.is_deleted(), F.lit(0).cast("bigint")).otherwise(F.lit(2**62))
        return F.shiftrightunsigned(F.xxhash64(*hashed), _DROPPED_HASH_BITS).bitwiseOR(addition)
