"""Transactions: all of a producer's writes and offsets become visible together, or none of them.

`state` has the values and the table of transitions, `rules` decides what each request does to a transaction, `storage`
has its records in `__transaction_state`, `coordinator` performs it.
"""
