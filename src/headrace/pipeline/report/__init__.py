"""A job seen from outside: progress, status, offsets, event-time skew."""
