"""Jobs on Spark, measured beside the same work in plain PySpark."""
