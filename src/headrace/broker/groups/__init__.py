"""Groups: their members, generations or epochs, assignments and committed offsets.

`state` and `events` are the values, `classic` and `rebalance` the pure rules of the classic protocol, and
`coordinator` performs what they decide. Committed offsets (`offsets`) and their log (`storage`) belong to
groups of every kind.
"""
