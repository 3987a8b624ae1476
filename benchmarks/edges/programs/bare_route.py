"""What a team writes first: a FastAPI route that produces the events of a request, and returns when the broker has
acknowledged them. `python -m benchmarks.edges.programs.bare_route BOOTSTRAP`
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from typing import Any

import uvicorn
from confluent_kafka import Producer
from fastapi import FastAPI, Request

from benchmarks.edges.bench import TOPIC


def create_app(bootstrap: str) -> FastAPI:
    app = FastAPI()
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1})

    def poll() -> None:
        while True:
            producer.poll(0.1)

    threading.Thread(target=poll, daemon=True).start()

    @app.post(f"/topics/{TOPIC}")
    async def produce(request: Request) -> dict[str, Any]:
        events = await request.json()
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        offsets: list[dict[str, Any]] = []

        def delivered(error: Any, message: Any) -> None:
            offsets.append({"partition": message.partition(), "offset": message.offset(), "error": error})
            if len(offsets) == len(events):
                loop.call_soon_threadsafe(done.set)

        for each in events:
            producer.produce(TOPIC, json.dumps(each).encode(), on_delivery=delivered)
        await done.wait()
        return {"offsets": offsets}

    return app


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(create_app(sys.argv[1]), access_log=False, log_level="warning", http="h11")
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
