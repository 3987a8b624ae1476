"""One file a group of rows of the table."""
