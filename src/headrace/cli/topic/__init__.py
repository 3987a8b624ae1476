"""`headrace topic`: the commands, configs as people type them, sizes on disk."""
