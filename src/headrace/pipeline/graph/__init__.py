"""What jobs do: steps read from Spark's plan, and the graph of jobs, topics and stores."""
