"""Hadoop's classes: of the running session. A process without one starts them: tests/contract/test_folders.py."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.pipeline.folders.java_hadoop import hadoop_for, hadoop_options


def test_running_session_is_used_with_its_options(spark: SparkSession) -> None:
    hadoop = hadoop_for("hdfs://head:8020/jobs")
    assert hadoop.jvm is spark._jvm
    assert not hadoop.is_gone()
    assert hadoop.conf.get("fs.file.impl") == "org.apache.hadoop.fs.LocalFileSystem"


def test_options_of_hadoop_are_those_with_its_prefix() -> None:
    options = {"spark.hadoop.fs.s3a.endpoint": "http://s3", "spark.executor.memory": "1g"}
    assert hadoop_options(options) == {"fs.s3a.endpoint": "http://s3"}
