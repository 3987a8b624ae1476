"""Direct messaging without a broker between: UDP multicast, ZeroMQ and nng, in and out.

packet      the wire format of numbered feeds; `packing` fills packets
gaps        gaps, duplicates and order of one stream; `feed` has all streams of a receiver
carried     what travels with each event: its number, and what is missing before it
intervals   the event that counts the losses of an interval
resuming    where a receiver that was stopped or killed continues
recovery    missing events, read from the topic of the publisher
receiver    the loop of all incoming edges, numbered or plain
publisher   the loop of all outgoing edges
multicast, zeromq, nng    the sockets
"""
