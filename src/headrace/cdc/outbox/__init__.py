"""The outbox: events that a program writes into a table, in the transaction of the change that they tell of.

definition   the table, its columns, the names of topics
router       a row to its record
publishing   rows to topics, in the transaction of the position; dead letters
emptying     deletes rows that the log has
table        the statement that creates the table, and `add`
"""

from headrace.cdc.outbox.definition import Outbox
from headrace.cdc.outbox.table import add, create_statement

__all__ = ["Outbox", "add", "create_statement"]
