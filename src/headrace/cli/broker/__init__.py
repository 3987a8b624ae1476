"""`headrace broker`: the command, and how its log lines look."""
