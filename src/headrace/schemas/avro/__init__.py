"""Avro schemas, by the specification 1.12: names, canonical form, and schema resolution."""
