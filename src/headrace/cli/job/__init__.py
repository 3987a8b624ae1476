"""`headrace job`: the commands, and how jobs are launched and shown."""
