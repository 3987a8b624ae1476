"""`headrace alert`: notify people of what happens in a stream."""
