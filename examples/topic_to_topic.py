"""From a topic to a topic: a job filters the clicks of the shop, continues from its checkpoint, and writes each once.

python examples/topic_to_topic.py
"""

from __future__ import annotations

import json
import tempfile

from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import Broker
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Topic

CLICKS = 30
PATIENCE_S = 90


def send_clicks(bootstrap: str, first: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + CLICKS):
        place = "shop" if number % 3 == 0 else "news"
        click = {"user": f"u{number % 5}", "url": f"https://{place}.example/{number}"}
        producer.produce("clicks", value=json.dumps(click))
    producer.flush()


def read(bootstrap: str, topic: str) -> list[tuple[str, str]]:
    """The keys and urls that a reader of committed data sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "looking",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append(((message.key() or b"").decode(), json.loads(message.value() or b"")["url"]))
    consumer.close()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Broker() as broker:
        spark = session("shop", bootstrap=broker.bootstrap, data_dir=folder)
        send_clicks(broker.bootstrap, first=0)
        clicks = read_topic(spark, "clicks", schema="user STRING, url STRING")
        shop = clicks.where("url LIKE 'https://shop.example/%'")

        def catch_up() -> None:
            """Process the new records, and end. Without mode="batch" the job runs until it is stopped."""
            job = Job("shop-clicks", shop, Topic("shop-clicks", key="user"), mode="batch").start()
            assert job.wait(PATIENCE_S), "the job still runs"

        catch_up()
        print(f"{len(read(broker.bootstrap, 'shop-clicks'))} of {CLICKS} clicks were in the shop")
        catch_up()
        print(f"nothing new: still {len(read(broker.bootstrap, 'shop-clicks'))}")
        send_clicks(broker.bootstrap, first=CLICKS)
        catch_up()
        rows = read(broker.bootstrap, "shop-clicks")
        print(f"and then {len(rows)}, of which {len(set(rows))} are different")
        spark.stop()


if __name__ == "__main__":
    main()
