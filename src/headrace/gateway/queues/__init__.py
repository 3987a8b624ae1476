"""Queues over HTTP: messages with receipts, which stand for their locks.

routes     receive, accept, release, reject
queues     the queues in use;  threads: what their consumers may cost
queue      one topic and group: who gets which message, and what becomes of it
leases     messages that are locked here, and their states;  consumer: a consumer of a share group, which locks them
receipts   the text that stands for a lease
"""
