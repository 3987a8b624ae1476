"""A minimal client: one connection, prepared Produce frames with a window in flight, or one Fetch after another.

    python -m benchmarks.broker.raw_client produce|fetch HOST:PORT FRAMES RECORD_BYTES

It costs so little that the figures are those of the broker, or of the bare peer. It prints JSON.
"""

from __future__ import annotations

import json
import socket
import sys
import time

from benchmarks.broker.wire import (
    FETCH_BYTES,
    FETCH_RESPONSE,
    PRODUCE_RESPONSE,
    fetch_request,
    make_batch,
    produce_request,
    read_exactly,
    set_correlation_id,
)

FRAMES_IN_FLIGHT = 5  # like the Java producer
RECEIVE_BYTES = 65_536


def produce(connection: socket.socket, frames: int, record_bytes: int) -> dict[str, float]:
    batch, batch_records = make_batch(record_bytes)
    request = produce_request(batch)
    sent = acknowledged = 0
    unread = b""
    started_s = time.perf_counter()
    while acknowledged < frames:
        while sent < min(frames, acknowledged + FRAMES_IN_FLIGHT):
            set_correlation_id(request, sent)
            connection.sendall(request)
            sent += 1
        unread += connection.recv(RECEIVE_BYTES)
        whole = len(unread) // PRODUCE_RESPONSE.size
        for index in range(whole):
            _check_produced(unread, index * PRODUCE_RESPONSE.size, acknowledged + index)
        acknowledged += whole
        unread = unread[whole * PRODUCE_RESPONSE.size :]
    took_s = time.perf_counter() - started_s
    return _rates(frames * len(request), frames * batch_records, took_s)


def _check_produced(responses: bytes, position: int, correlation_id: int) -> None:
    length, response_id, _, _, _, _, _, error_code, *_ = PRODUCE_RESPONSE.unpack_from(responses, position)
    if (length, response_id, error_code) != (PRODUCE_RESPONSE.size - 4, correlation_id, 0):
        raise SystemExit(
            f"response {response_id} of {length} bytes to frame {correlation_id}: error {error_code}"
        )


def fetch(connection: socket.socket, frames: int, record_bytes: int) -> dict[str, float]:
    """Read what `produce` wrote. All batches have one size, so the next offset follows from the number of bytes."""
    batch, batch_records = make_batch(record_bytes)
    target = memoryview(bytearray(2 * FETCH_BYTES))
    batches = received_bytes = 0
    started_s = time.perf_counter()
    while batches < frames:
        connection.sendall(fetch_request(batches * batch_records))
        head = read_exactly(connection, FETCH_RESPONSE.size)
        *_, error_code, _, _, _, size_bytes = FETCH_RESPONSE.unpack(head)
        if error_code or size_bytes < len(batch):
            raise SystemExit(f"fetch of batch {batches} returned {size_bytes} bytes and error {error_code}")
        _receive_into(connection, target[:size_bytes])
        batches += size_bytes // len(batch)
        received_bytes += size_bytes
    took_s = time.perf_counter() - started_s
    return _rates(received_bytes, batches * batch_records, took_s)


def _receive_into(connection: socket.socket, target: memoryview) -> None:
    filled = 0
    while filled < len(target):
        count = connection.recv_into(target[filled:])
        if count == 0:
            raise SystemExit("the broker closed the connection in the middle of a response")
        filled += count


def _rates(sent_bytes: int, records: int, took_s: float) -> dict[str, float]:
    return {"megabytes_per_s": sent_bytes / took_s / 1e6, "records": records}


def main() -> None:
    work, address, frames, record_bytes = sys.argv[1:]
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        measure = {"produce": produce, "fetch": fetch}[work]
        print(json.dumps(measure(connection, int(frames), int(record_bytes))))


if __name__ == "__main__":
    main()
