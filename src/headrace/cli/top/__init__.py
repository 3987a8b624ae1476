"""`headrace top`: topics, groups and jobs of a cluster, live."""
