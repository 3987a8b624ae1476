"""MySQL and MariaDB as a source of changes, by the row-based binary log.

source        the `ChangeSource`: snapshot, then the stream
initial       the snapshot of all tables, at one place of the log
live          the running stream, and the chunks of snapshots beside it
setup         what a capture needs of the database, checked
session       the ordinary connection, and the tables that the stream names
stream        events of the log to changes with positions
described     the table of a row event: names and readers of its columns
snapshot      which tables are still to be read, and the statements that read them
statements    what a statement does to tables
replication   the connection that streams
binlog        bytes to events; `tablemap`, `rows` and `values` read the parts of a row event
gtid, place   ids of transactions, and places in the log
catalog       tables and columns of the database
types         columns and values of Debezium's envelope; `times` and `charsets` convert the longer ones
connection    connections, and what their errors mean
"""
