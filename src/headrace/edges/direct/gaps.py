"""The gaps of one stream: (position, packet) -> (position, what is ready in order, what was seen before). Pure.

A packet that is ahead is held until those before it arrive, for a bounded number of packets and a bounded time. Then
the numbers between are a gap, and what was held is ready.
"""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from headrace.edges.direct.packet import Packet


class Gap(NamedTuple):
    """Numbers that did not arrive, from `first` up to `next`."""

    first: int
    next: int

    @property
    def size(self) -> int:
        return self.next - self.first


Ready = Packet | Gap


class ReorderBounds(Struct, frozen=True, kw_only=True):
    packets: int = 256
    """that are held: a few milliseconds of a fast feed"""
    wait_ms: int = 100
    """for the packets before them: longer than two paths through a network differ"""
    leap: int = 1_000_000
    """A packet so much further ahead is believed only if another one follows it: a forged one does no harm."""
    gaps_kept: int = 64
    """of the last gaps: they tell a late packet from a duplicate"""


class Position(Struct, frozen=True, kw_only=True):
    expected: int
    """the next number"""
    held: tuple[Packet, ...] = ()
    """ahead of `expected`, in order"""
    held_since_ms: int = 0
    gaps: tuple[Gap, ...] = ()
    leap: Packet | None = None
    """far ahead, and not believed yet"""


class Step(Struct, frozen=True, kw_only=True):
    position: Position
    ready: tuple[Ready, ...] = ()
    """in the order of the numbers"""
    duplicates: int = 0
    """events that were ready before"""
    late: int = 0
    """events whose gap was ready before"""
    reordered: int = 0
    """packets that arrived before others with smaller numbers, or after greater ones"""


def accept(position: Position, packet: Packet, now_ms: int, bounds: ReorderBounds) -> Step:
    expected = position.expected
    if packet.first <= expected:
        if packet.next <= expected:
            return _seen(position, packet)
        return _release(position, [], packet, now_ms)
    leap = position.leap
    if packet.first - expected > bounds.leap:
        if leap is None or not leap.next <= packet.first <= leap.next + bounds.leap:
            return Step(position=replace(position, leap=packet))
        position = _hold(replace(position, leap=None), leap, now_ms, bounds).position
    return _hold(position, packet, now_ms, bounds)


def expire(position: Position, now_ms: int, bounds: ReorderBounds) -> Step:
    """After a wait: what is held is ready, behind a gap, if it was held for long enough."""
    if position.held and now_ms - position.held_since_ms >= bounds.wait_ms:
        return _declare(position, now_ms, bounds)
    return Step(position=position)


def end(position: Position, now_ms: int, bounds: ReorderBounds) -> Step:
    """At the end nothing is waited for."""
    ready: list[Ready] = []
    duplicates = 0
    while position.held:
        step = _declare(position, now_ms, bounds)
        position = step.position
        ready += step.ready
        duplicates += step.duplicates
    return Step(position=position, ready=tuple(ready), duplicates=duplicates)


def _seen(position: Position, packet: Packet) -> Step:
    late = sum(any(gap.first <= event.number < gap.next for gap in position.gaps) for event in packet.events)
    return Step(
        position=position, duplicates=len(packet.events) - late, late=late, reordered=1 if late else 0
    )


def _hold(position: Position, packet: Packet, now_ms: int, bounds: ReorderBounds) -> Step:
    if any((each.first, each.next) == (packet.first, packet.next) for each in position.held):
        return Step(position=position, duplicates=len(packet.events))
    held = [*position.held]
    insort(held, packet, key=lambda each: (each.first, each.next))
    since_ms = position.held_since_ms if position.held else now_ms
    position = replace(position, held=tuple(held), held_since_ms=since_ms)
    if len(held) > bounds.packets:
        return _declare(position, now_ms, bounds)
    return Step(position=position)


def _declare(position: Position, now_ms: int, bounds: ReorderBounds) -> Step:
    """The numbers before the first held packet are a gap."""
    gap = Gap(position.expected, position.held[0].first)
    gaps = (*position.gaps, gap)[-bounds.gaps_kept :]
    return _release(replace(position, expected=gap.next, gaps=gaps), [gap], None, now_ms)


def _release(position: Position, ready: list[Ready], packet: Packet | None, now_ms: int) -> Step:
    """What follows without a gap."""
    expected, held = position.expected, position.held
    duplicates = 0
    # A packet fills a gap between others: it is behind those that are held.
    reordered = 1 if packet is not None and held else 0
    waiting = [packet, *held] if packet is not None else [*held]
    count = 0
    for each in waiting:
        if each.first > expected:
            break
        count += 1
        events = each.events
        if each.first < expected:
            events = tuple(event for event in events if event.number >= expected)
            duplicates += len(each.events) - len(events)
            each = replace(each, first=expected, next=max(each.next, expected), events=events)
        if each.next > expected:
            ready.append(each)
        expected = max(expected, each.next)
    left = tuple(waiting[count:])
    since_ms = now_ms if left else 0
    position = Position(expected=expected, held=left, held_since_ms=since_ms, gaps=position.gaps)
    return Step(position=position, ready=tuple(ready), duplicates=duplicates, reordered=reordered)
