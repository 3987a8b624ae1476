"""Rows as records with the id of a registered schema.

avro_schema, json_schema, protobuf_schema   the schema of rows
protobuf_rows   rows as Protobuf messages
encoding        what runs in Spark's Python workers
values          registers the schema, and makes the column of records
"""
