"""A bare socket and a bare file instead of a broker: the cost of the same bytes without any processing.

    python -m benchmarks.broker.bare_peer produce|fetch os|fsync FILE FRAME_BYTES

It knows only the length of a frame. It writes the bytes of frames to the file as they arrive, and responds to each
frame with zeros of the right length. It responds to a fetch with the next bytes of the file, by sendfile.
It prints its port, serves one connection, and ends.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

from benchmarks.broker.wire import (
    FETCH_BYTES,
    FETCH_RESPONSE,
    PRODUCE_RESPONSE,
    TOPIC,
    fetch_request,
    read_exactly,
)

RECEIVE_BYTES = 1_048_576


def take_frames(connection: socket.socket, file: int, frame_bytes: int, *, fsync: bool) -> None:
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    received = responded = 0
    while count := connection.recv_into(buffer):
        os.write(file, buffer[:count])
        received += count
        whole = received // frame_bytes - responded
        if whole and fsync:
            os.fdatasync(file)
        connection.sendall(b"".join(_produce_response(responded + index) for index in range(whole)))
        responded += whole


def _produce_response(correlation_id: int) -> bytes:
    return PRODUCE_RESPONSE.pack(
        PRODUCE_RESPONSE.size - 4, correlation_id, 1, len(TOPIC), TOPIC, 1, 0, 0, 0, -1, 0, 0
    )


def give_bytes(connection: socket.socket, file: int, batch_bytes: int) -> None:
    request_bytes = len(fetch_request(0))
    size_bytes = FETCH_BYTES // batch_bytes * batch_bytes
    length = struct.pack(">i", FETCH_RESPONSE.size - 4 + size_bytes)
    head = FETCH_RESPONSE.pack(0, 0, 0, 1, len(TOPIC), TOPIC, 1, 0, 0, 0, 0, 0, size_bytes)
    head = length + head[4:]
    file_bytes = os.fstat(file).st_size
    position = 0
    try:
        while read_exactly(connection, request_bytes):
            connection.sendall(head, socket.MSG_MORE)
            if position + size_bytes > file_bytes:
                position = 0  # start over: only the number of bytes matters
            end = position + size_bytes
            while position < end:
                position += os.sendfile(connection.fileno(), file, position, end - position)
    except ConnectionError:
        return  # the client is done


def main() -> None:
    work, durability, path, frame_bytes = sys.argv[1:]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        if work == "produce":
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            take_frames(connection, file, int(frame_bytes), fsync=durability == "fsync")
        else:
            file = os.open(path, os.O_RDONLY)
            give_bytes(connection, file, int(frame_bytes))
    os.close(file)


if __name__ == "__main__":
    main()
