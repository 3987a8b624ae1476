"""Edges: what takes events from the outside and hands them to a broker, over the wire.

event       one event on its way to a topic
overload    the intake of an edge: what happens when events arrive faster than the broker takes them
waiting     events that wait in memory: the policies drop and block
spool       events on disk: the policy buffer
delivery    the producer: events in flight, and what the broker reported
counters    what became of the events; `metrics` serves them
statsd      a StatsD listener
tcp         lines over TCP
datagrams   many datagrams with one system call, and the drops of the kernel
"""
