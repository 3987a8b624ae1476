"""Records that carry the id of a registered schema, as the serializers of schema registries write them.

client       what this side of a registry requests: Headrace's, Confluent's, Karapace
schema       a registered schema with those that it refers to; values only
framing      the bytes in front of a record: the id, and for Protobuf which message it is
avro         Avro values, resolved to a reader's schema
protobuf     Protobuf messages, by descriptors
documents    JSON documents that are checked against a schema
serde        records as JSON text, and back
"""
