"""`headrace alert`: notify people of what a stream says."""
