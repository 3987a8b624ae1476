"""Queues on a log: which records share groups have locked and acknowledged, and which are still to be delivered.

`states` is the table of what can happen to a record, `window` has the pure rules of one group on one partition (which
member has locked which offsets, as ranges; `key_order` adds the order of keys, and keeps those that wait in
`waiting_keys`), `delivery` reads what can be delivered. `coordinator` performs: it serves members (`sessions`), stores
states (`storage`, `state_writer`) and writes dead letters (`dead_letters`; `letters` is their format, `originals` and
`reasons` are read for them).
Members and their assignments belong to `broker.groups`.
"""
