"""Jobs on Spark, compared with the same work in plain PySpark."""
