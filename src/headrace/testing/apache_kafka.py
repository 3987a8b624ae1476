"""A real Apache Kafka for tests and benchmarks: one KRaft node on this machine, and Kafka's own tools.

Tests compare Headrace's broker with it, and every client test can use it instead of Headrace's broker.
"""

from __future__ import annotations

import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.java import JarSet, fetch_jars, last_lines
from headrace.testing.java import JavaTools
from headrace.testing.ports import free_ports
from headrace.testing.server_process import READY_TIMEOUT_S, ServerProcess, ServerUnavailable

# slf4j-simple writes to stderr and is set up by system properties, so that no logging configuration file is
# needed. Kafka 3.9 depends on another binding for slf4j, and slf4j accepts only one.
KAFKA_4_3 = JarSet(
    name="kafka-4.3.1",
    dependencies=(
        "org.apache.kafka:kafka_2.13:4.3.1",
        "org.apache.kafka:kafka-tools:4.3.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
KAFKA_3_9_TOOLS = JarSet(
    name="kafka-tools-3.9.2",
    dependencies=("org.apache.kafka:kafka-tools:3.9.2", "org.slf4j:slf4j-simple:1.7.36"),
    excludes=("org.slf4j:slf4j-reload4j",),
)

SERVER_HEAP_MB = 1024
"""The heap that Kafka's own start script gives a broker."""

_SERVER_JVM_OPTIONS = (
    # As in Kafka's own start script, so that a comparison is fair.
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)


def kafka_tools_4_3(*, quick_start: bool = True) -> JavaTools:
    """Kafka 4.3's own command-line tools, and the server."""
    return JavaTools(jars=fetch_jars(KAFKA_4_3), quick_start=quick_start)


def kafka_tools_3_9(*, quick_start: bool = True) -> JavaTools:
    """The tools of Kafka 3.9, the oldest release line of Java clients that Headrace supports."""
    return JavaTools(jars=fetch_jars(KAFKA_3_9_TOOLS), quick_start=quick_start)


class ApacheKafka(ServerProcess):
    """One Kafka node, from entering the context until leaving it.

        with ApacheKafka(properties={"flush.messages": "1"}) as kafka:
            Producer({"bootstrap.servers": kafka.bootstrap})

    `properties` override those that a single node needs. Data and log are in `folder`. Each start uses other ports.
    """

    name = "Apache Kafka"

    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = SERVER_HEAP_MB,
        folder: Path | None = None,
    ) -> None:
        super().__init__(folder)
        self._extra_properties = dict(properties or {})
        self._heap_mb = heap_mb
        self.bootstrap = ""

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def _launch(self) -> subprocess.Popen[str]:
        """Start the node; it continues with the data of the folder, if there is any."""
        tools = JavaTools(
            jars=fetch_jars(KAFKA_4_3),
            heap_mb=self._heap_mb,
            quick_start=False,
            log_level="info",
            jvm_options=(f"-Xms{self._heap_mb}m", *_SERVER_JVM_OPTIONS),
        )
        properties_file = self.folder / "server.properties"
        properties = self._properties()
        properties_file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        if not (self.data_dir / "meta.properties").exists():
            self._format(properties_file)
        with self.log_file.open("a") as log:
            return tools.start("kafka.Kafka", str(properties_file), stdout=log, stderr=log)

    def _properties(self) -> dict[str, str]:
        broker_port, controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{broker_port}"
        listeners = f"PLAINTEXT://{self.bootstrap}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data_dir),
            "auto.create.topics.enable": "true",
            "group.initial.rebalance.delay.ms": "0",
            **_INTERNAL_TOPICS_OF_ONE_NODE,
            **self._extra_properties,
        }

    def _format(self, properties_file: Path) -> None:
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
        formatted = JavaTools(jars=fetch_jars(KAFKA_4_3)).run(
            *(
                "kafka.tools.StorageTool",
                "format",
                "--cluster-id",
                cluster_id,
                "--config",
                str(properties_file),
            ),
            timeout_s=READY_TIMEOUT_S,
        )
        if formatted.returncode != 0:
            raise ServerUnavailable(
                f"Apache Kafka could not create its data folder:\n{last_lines(formatted.stdout + formatted.stderr)}",
                hint=f"check the properties in {properties_file}",
            )

    def _is_ready(self) -> bool:
        """Whether a broker responds that lists itself. The port is tried first, because librdkafka would back off."""
        host, _, port = self.bootstrap.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            return bool(admin.list_topics(timeout=10).brokers)
        except (OSError, KafkaException):
            return False


_INTERNAL_TOPICS_OF_ONE_NODE = {
    # One node has one replica. The default of 50 partitions for each state topic would make the first group,
    # transaction or share group of every test wait for files that no test needs.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
}
