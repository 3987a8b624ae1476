"""A script with two jobs, and a data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

# A job's process starts Spark: ten seconds on a machine with nothing else to do, minutes on one with much.
SPARK_TIMEOUT_S = 600

SHOP = """
from pyspark.sql.functions import col
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table, Topic

spark = session("shop")
clicks = read_topic(spark, "{topic}", schema="user STRING, url STRING")
shop = clicks.where("url LIKE '/shop/%'")
Job("{topic}-filter", shop, Topic("{topic}-shop", key="user")).start()
Job("{topic}-count", shop.groupBy("url").count(), Table("clicks_by_url", key=["url"])).start()
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def write_script(folder: Path, text: str) -> str:
    path = folder / "shop.py"
    path.write_text(text)
    return str(path)
