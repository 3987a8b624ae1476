"""Search on streams: stored queries that each document meets.

`analysis`, `query`, `vocabulary`, `document`, `evaluate`, `plan` and `matcher` are free of Spark: queries and documents
in, hits out. `search_step` and `search_queries` run them on the keyed-state core.
"""
