"""`headrace run`: a broker, a live stream and a job on it, for a demonstration."""
