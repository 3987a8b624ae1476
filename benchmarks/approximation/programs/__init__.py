"""Programs that run in their own process for one sample: a Spark session, a warm-up, and the timed work."""
