"""`headrace erase`: remove a person's data, and prove it."""
