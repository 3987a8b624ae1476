"""A bare socket and a bare file in the place of a broker: what the same bytes cost when nobody looks at them.

    python -m benchmarks.broker.bare_peer produce|fetch os|fsync FILE FRAME_BYTES

It knows only how long a frame is. Frames are written to the file as they come, in whatever pieces, and each
is answered with zeros of the right length; fetches are answered with the file's next bytes, by sendfile.
It prints its port, serves one connection, and ends.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

from benchmarks.broker.wire import (
    FETCH_ANSWER,
    FETCH_BYTES,
    PRODUCE_ANSWER,
    TOPIC,
    fetch_request,
    read_exactly,
)

RECEIVE_BYTES = 1_048_576


def take_frames(connection: socket.socket, file: int, frame_bytes: int, *, fsync: bool) -> None:
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    received = answered = 0
    while count := connection.recv_into(buffer):
        os.write(file, buffer[:count])
        received += count
        whole = received // frame_bytes - answered
        if whole and fsync:
            os.fdatasync(file)
        connection.sendall(b"".join(_produce_answer(answered + index) for index in range(whole)))
        answered += whole


def _produce_answer(correlation_id: int) -> bytes:
    return PRODUCE_ANSWER.pack(
        PRODUCE_ANSWER.size - 4, correlation_id, 1, len(TOPIC), TOPIC, 1, 0, 0, 0, -1, 0, 0
    )


def give_bytes(connection: socket.socket, file: int, batch_bytes: int) -> None:
    request_bytes = len(fetch_request(0))
    size_bytes = FETCH_BYTES // batch_bytes * batch_bytes
    length = struct.pack(">i", FETCH_ANSWER.size - 4 + size_bytes)
    head = FETCH_ANSWER.pack(0, 0, 0, 1, len(TOPIC), TOPIC, 1, 0, 0, 0, 0, 0, size_bytes)
    head = length + head[4:]
    file_bytes = os.fstat(file).st_size
    position = 0
    try:
        while read_exactly(connection, request_bytes):
            connection.sendall(head, socket.MSG_MORE)
            if position + size_bytes > file_bytes:
                position = 0  # round again: only the bytes matter here, not which ones
            end = position + size_bytes
            while position < end:
                position += os.sendfile(connection.fileno(), file, position, end - position)
    except ConnectionError:
        return  # the client has what it wanted


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
