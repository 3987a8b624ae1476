"""Jobs on Spark: topics in, sinks out, each micro-batch once."""
