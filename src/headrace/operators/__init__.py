"""Operators: DataFrame in, DataFrame out, on Spark.

    from headrace import operators as op

    per_minute = clicks.transform(op.Tumbling("1 minute", by="url", aggregate={"n": "count(*)"}))

Each is a frozen value that checks itself when it is made. The same operator on a bounded DataFrame gives the rows that
the stream gives in the end.
"""
