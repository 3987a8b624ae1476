"""The keyed-state core that stateful operators share.

Rows are hashed into buckets, and a bucket's state is worked on as whole columns, never key by key. Everything but
`spark.py` and `inspect.py` is free of Spark: columns in, columns out.
"""
