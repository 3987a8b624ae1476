"""Queues on a log: what share groups were handed, have acknowledged, and are still to get.

`states` is the table of what can happen to a record, `window` the pure rules of one group on one partition (which
offsets are whose, as ranges), `delivery` reads what can be handed out. `coordinator` performs: it answers members
(`sessions`), keeps states on disk (`storage`, `state_writer`) and writes dead letters (`dead_letters`; `letters` is
what one looks like, `originals` and `reasons` are read for it).
Who is a member and which partitions it is given belongs to `broker.groups`.
"""
