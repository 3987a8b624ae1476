"""Direct messaging without a broker between: UDP multicast, ZeroMQ and nng, in and out.

packet      the wire format of numbered feeds; `packing` fills packets
gaps        gaps, duplicates and order of one stream; `feed` has all streams of a receiver
carried     what travels with each event: its number, and what is missing before it
tally       what a receiver counts, and the event that has the counts of an interval
resuming    where a receiver that was stopped or killed continues; `tails` reads its topic for that
numbering   offsets as numbers; `publishing` turns records into events
recovery    missing events, read from the topic of the publisher
receiver    the loop of all incoming edges, numbered or plain
publisher   the loop of all outgoing edges
transport   what sockets have in common; `multicast`, `zeromq` and `nng` are the sockets, `urls` their addresses
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.edges.direct.multicast import MulticastSink, MulticastSource
    from headrace.edges.direct.nng import NngSink, NngSource
    from headrace.edges.direct.packet import (
        BadPacket,
        NumberedEvent,
        Packet,
        decode_packet,
        encode_packet,
    )
    from headrace.edges.direct.zeromq import ZeroMQSink, ZeroMQSource
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "multicast": ("MulticastSink", "MulticastSource"),
            "nng": ("NngSink", "NngSource"),
            "packet": ("BadPacket", "NumberedEvent", "Packet", "decode_packet", "encode_packet"),
            "zeromq": ("ZeroMQSink", "ZeroMQSource"),
        },
    )

__all__ = [
    "BadPacket",
    "MulticastSink",
    "MulticastSource",
    "NngSink",
    "NngSource",
    "NumberedEvent",
    "Packet",
    "ZeroMQSink",
    "ZeroMQSource",
    "decode_packet",
    "encode_packet",
]
