"""Protobuf schemas: compiled by protoc, printed, and compared by what stays readable on the wire."""
