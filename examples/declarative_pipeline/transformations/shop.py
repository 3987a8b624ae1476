"""A declarative pipeline of Spark with Headrace's sinks: it declares the results, not how to run them."""

from __future__ import annotations

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.pipeline import register_formats

spark = SparkSession.active()
register_formats(spark)

folder = spark.conf.get("shop.folder")
pipelines.create_sink(
    "orders_found", "headrace-search", {"name": "orders", "key": "id", "at": f"{folder}/search"}
)
pipelines.create_sink("orders_kept", "headrace-delta", {"name": "orders", "at": f"{folder}/delta"})


@pipelines.temporary_view
def orders() -> DataFrame:
    """The topic of orders, read like any Kafka topic."""
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", spark.conf.get("shop.bootstrap"))
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    order = F.from_json(F.col("value").cast("string"), "id LONG, city STRING, text STRING")
    return messages.select(order.alias("order")).select("order.*")


@pipelines.append_flow(target="orders_found")
def find_orders() -> DataFrame:
    return spark.readStream.table("orders")


@pipelines.append_flow(target="orders_kept")
def keep_orders() -> DataFrame:
    return spark.readStream.table("orders").where("city = 'Rome'")
