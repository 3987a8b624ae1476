"""Every message that the broker speaks, one module per API, each with its request and its response."""
