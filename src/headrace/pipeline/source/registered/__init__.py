"""Records with the id of a registered schema as columns.

avro_columns, protobuf_columns, json_columns   the type of the column of a schema, and values as Arrow
decoding     what runs in Spark's Python workers: the writers' schemas, and records as rows
subjects     which schema a source is read with
columns      the same as Spark's expressions
"""
