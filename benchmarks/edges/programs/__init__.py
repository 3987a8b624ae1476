"""Programs of samples, each in its own process."""
