"""Transactions: all of a producer's writes and offsets become visible together, or none of them.

`state` has the values and the table of what moves a transaction, `rules` says what each request does to one, `storage`
how it is kept in `__transaction_state`, `coordinator` performs it.
"""
