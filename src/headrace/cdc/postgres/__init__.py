"""PostgreSQL as a source of changes, by logical replication with `pgoutput`.

    source        the `ChangeSource`: snapshot, then the stream
    initial       the slot, and the snapshot of all tables at its beginning
    live          the running stream: feedback, heartbeats, incremental snapshots
    setup         what a capture needs of the database, checked
    session       the ordinary connection, and the tables that the stream names
    stream        messages of pgoutput to changes with positions
    relation      a Relation message to a `Table`, and the values of its rows
    pgoutput      bytes to messages
    snapshot      which tables are still to be read, and the statements that read them
    window        rows that were read while the stream goes on, without those that have changed since
    slot          the replication slot and the publication
    catalog       tables, columns and types of the database
    replication   the connection that streams
    connection    connections, and what their errors mean
    types         columns and values of Debezium's envelope; `times` and `arrays` parse the longer ones

The driver is psycopg 3 with its libpq wrapper. psycopg2 has a replication cursor, but that cursor answers keepalives
by itself, and moves the flush position beyond what was confirmed if transactions overlap.
"""
