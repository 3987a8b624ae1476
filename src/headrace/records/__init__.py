"""Records and record batches (Kafka's format v2): the values that wire and disk share. No I/O here."""
