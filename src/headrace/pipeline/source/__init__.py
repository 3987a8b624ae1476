"""Topics as DataFrames: positions, formats, idle sources."""
