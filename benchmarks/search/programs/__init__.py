"""The programs of the samples, each run in a process of its own."""
