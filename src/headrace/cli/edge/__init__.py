"""`headrace edge`: one module per edge, their options, and the intake that they share."""
