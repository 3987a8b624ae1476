"""`headrace broker`: the command, and the format of its log lines."""
