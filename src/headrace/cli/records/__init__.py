"""`headrace produce` and `headrace consume`: records in and out."""
