"""Every message of the broker, one module per API, each with its request and its response."""
