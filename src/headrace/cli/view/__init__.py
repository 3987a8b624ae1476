"""`headrace view`."""
