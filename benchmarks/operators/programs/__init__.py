"""What runs in a process of its own for one sample: a Spark session, a warm-up, and the work that is timed."""
