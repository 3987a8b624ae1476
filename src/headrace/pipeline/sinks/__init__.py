"""Where the rows of a job go. One file a sink."""
