"""`headrace queue` and `headrace work`: queue groups, dead letters, workers."""
