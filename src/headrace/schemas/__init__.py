"""Schemas of records: Avro, JSON Schema and Protobuf.

Parsing, the canonical form that identifies a schema, and whether data of one schema can be read with another. Nothing
here knows of topics, of HTTP or of a registry. One module has an effect: `protobuf.compiler` runs protoc.

definition   a schema as text, with its type and references
parsing      text -> a parsed schema of any type
levels       which versions of a subject are compared, and in which direction
"""
