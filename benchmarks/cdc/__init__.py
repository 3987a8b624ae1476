"""Compares captures of PostgreSQL with `COPY` and with Debezium's engine."""
