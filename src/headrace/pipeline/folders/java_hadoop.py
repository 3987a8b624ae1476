"""Hadoop's classes for this process: in the JVM of its Spark session, or in a small JVM of their own."""

from __future__ import annotations

import glob
import importlib.util
import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.java import JarSet, fetch_jars, java_command
from headrace.pipeline.addresses import scheme_of
from headrace.pipeline.settings import pipeline_settings, spark_properties

S3A = JarSet(
    name="hadoop-aws-3.5.0",
    # Hadoop's own dependency is the bundle of all services of AWS: 686 MB. S3 takes 15.
    dependencies=(
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.awssdk:s3:2.35.4",
        "software.amazon.awssdk:s3-transfer-manager:2.35.4",
        "software.amazon.awssdk:sts:2.35.4",
        "software.amazon.awssdk:apache-client:2.35.4",
        "software.amazon.awssdk:netty-nio-client:2.35.4",
    ),
    excludes=(
        "software.amazon.awssdk:bundle",
        "org.slf4j",
        "org.apache.logging.log4j",
        "org.apache.hadoop:hadoop-common",
        # Spark has them.
        "io.netty",
        "org.apache.httpcomponents",
        "commons-codec",
        "commons-logging",
    ),
)

HEAP_MB = 256


class Hadoop:
    """The classes, the configuration, and whose JVM it is."""

    def __init__(
        self, gateway: Any, jvm: Any, conf: Any, *, process: subprocess.Popen[Any] | None = None
    ) -> None:
        self.jvm = jvm
        self.conf = conf
        self._gateway = gateway
        self._process = process

    def is_gone(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def rename(self, source: Any, target: Any, *, overwrite: bool) -> None:
        """Atomically, where the file system does it. Without `overwrite` it fails if there is a target."""
        hadoop = self.jvm.org.apache.hadoop.fs
        kind = getattr(hadoop, "Options$Rename")
        options = self._gateway.new_array(kind, 1)
        options[0] = kind.OVERWRITE if overwrite else kind.NONE
        context = hadoop.FileContext.getFileContext(target.toUri(), self.conf)
        context.rename(source, target, options)


def hadoop_for(address: str) -> Hadoop:
    """Of the running Spark session, whose options it has; else of a small JVM, which is started once."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None and context._jsc is not None:
        return Hadoop(context._gateway, context._jvm, context._jsc.hadoopConfiguration())
    with _lock:
        is_s3 = scheme_of(address) == "s3a"
        options = hadoop_options(spark_properties(pipeline_settings()))
        key = is_s3, *sorted(options.items())
        own = _own.get(key)
        if own is None or own.is_gone():
            own = _own[key] = _start(options, with_s3=is_s3)
        return own


_own: dict[tuple[object, ...], Hadoop] = {}
"""Hadoop keeps a client for each store, whatever its options are: other options need another JVM."""

_lock = threading.Lock()


def _start(options: Mapping[str, str], *, with_s3: bool) -> Hadoop:
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    spark_jars = _spark_jars()
    classes = [os.environ.get("HADOOP_CONF_DIR", ""), f"{spark_jars}/*"]
    if with_s3:
        classes.append(f"{fetch_jars(S3A)}/*")
    port, token, process = launch_gateway(
        jarpath=glob.glob(f"{spark_jars}/py4j-*.jar")[0],
        classpath=os.pathsep.join(filter(None, classes)),
        java_path=java_command(),
        javaopts=[f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        die_on_exit=True,
        enable_auth=True,
        redirect_stdout=subprocess.DEVNULL,
        redirect_stderr=subprocess.DEVNULL,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
    for name, text in options.items():
        conf.set(name, text)
    return Hadoop(gateway, gateway.jvm, conf, process=process)


def hadoop_options(conf: Mapping[str, str]) -> dict[str, str]:
    """The options of Hadoop among those of Spark."""
    prefix = "spark.hadoop."
    return {name.removeprefix(prefix): text for name, text in conf.items() if name.startswith(prefix)}


def _spark_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "jars"
