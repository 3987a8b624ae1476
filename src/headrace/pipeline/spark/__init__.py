"""The Spark session, its class archive, and the sinks as Spark formats."""
