"""A declarative pipeline of Spark (`spark-pipelines run`) that writes through Headrace's sinks.

python examples/declarative_pipeline/run.py

The pipeline itself is transformations/shop.py, its specification spark-pipeline.yml. This script starts a broker with
some orders, runs the pipeline as the command line would, and checks the results. It needs
`pip install 'pyspark[pipelines]'`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
import yaml
from confluent_kafka import Producer

from headrace import Broker
from headrace.pipeline import connector_jars
from headrace.pipeline.sinks import Delta, Search

HERE = Path(__file__).parent
ORDERS = [
    {"id": 1, "city": "Rome", "text": "two boxes of red tomatoes"},
    {"id": 2, "city": "Oslo", "text": "one box of green apples"},
    {"id": 3, "city": "Rome", "text": "green tomatoes, if there are any"},
]


def send(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for order in ORDERS:
        producer.produce("orders", key=str(order["id"]), value=json.dumps(order))
    producer.flush()


def write_specification(bootstrap: str, folder: Path) -> Path:
    """The specification beside this file, with the broker and the folder of this run."""
    specification = yaml.safe_load((HERE / "spark-pipeline.yml").read_text())
    specification["storage"] = (folder / "storage").as_uri()
    specification["configuration"] = {"shop.bootstrap": bootstrap, "shop.folder": str(folder)}
    path = folder / "spark-pipeline.yml"
    path.write_text(yaml.safe_dump(specification))
    (folder / "transformations").symlink_to(HERE / "transformations")
    return path


def run(specification: Path) -> None:
    spark_home = Path(pyspark.__file__).parent
    command = [spark_home / "bin" / "spark-pipelines", "run", "--remote", "local[2]"]
    command += ["--conf", f"spark.jars={connector_jars()}", "--conf", "spark.ui.enabled=false"]
    environment = {**os.environ, "SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, "--spec", specification], env=environment, stderr=subprocess.STDOUT, stdout=subprocess.PIPE
    )
    if done.returncode != 0:
        sys.exit(done.stdout.decode())


def main() -> None:
    with tempfile.TemporaryDirectory() as name, Broker() as broker:
        folder = Path(name)
        send(broker.bootstrap)
        run(write_specification(broker.bootstrap, folder))
        index = Search("orders", key="id", at=folder / "search").reader()
        print(f"search: {index.count()} orders; the best hit for 'green tomatoes' is", end=" ")
        print(f"order {index.search('green tomatoes', limit=1)[0].row['id']}")
        delta = Delta("orders", at=folder / "delta").table()
        print(f"delta: {delta.count()} orders of Rome, in version {delta.version()} of the table")


if __name__ == "__main__":
    main()
