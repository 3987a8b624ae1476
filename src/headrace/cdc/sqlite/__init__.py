"""Changes of a SQLite file, by any process that writes it: triggers record them in the writer's own transaction."""
