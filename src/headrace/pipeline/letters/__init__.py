"""Records and rows that a job could not use: dead letters, late rows, and the reasons."""
