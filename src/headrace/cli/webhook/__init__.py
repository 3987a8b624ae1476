"""`headrace webhook`."""
