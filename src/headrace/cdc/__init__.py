"""Change data capture: the changes of a database's tables as records of topics, in Debezium's envelope.

change       a table, a change of one of its rows, and the end of a transaction
envelope     the record of a change
source       the contract of a database: tables, snapshot, stream; one module for each kind of database
publisher    records and positions in the transactions of the log
schemas      the schemas of captured tables, as a topic that readers find columns and types in
outbox       events that a program writes into a table of its own
runner       snapshot, stream, retries
capture      the definitions and states of captures in the data folder
"""
