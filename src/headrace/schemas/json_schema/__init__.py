"""JSON Schema, draft 4 to 2020-12: references within and between schemas, and compatibility."""
