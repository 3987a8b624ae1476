"""A real HDFS for tests: a namenode and a datanode in one Java process, from Hadoop's own test cluster."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from headrace.java import JarSet, fetch_jars
from headrace.testing.java import JavaTools
from headrace.testing.ports import free_port
from headrace.testing.server_process import ServerProcess

VERSION = "3.5.0"
"""That of the client in pyspark 4.2.0."""

HDFS = JarSet(
    name=f"hadoop-minicluster-{VERSION}",
    dependencies=(f"org.apache.hadoop:hadoop-client-minicluster:{VERSION}",),
)

MAIN_CLASS = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
HEAP_MB = 384
READY_FILE = "ready.json"
"""The cluster writes it when it is ready."""


class HdfsCluster(ServerProcess):
    """One HDFS, from entering the context until leaving it.

        with HdfsCluster() as hdfs:
            Job("shop", rows, sink, checkpoint=f"{hdfs.address}/shop")

    It listens on the loopback address only. Its files are lost when it stops.
    """

    name = "HDFS"

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self.address = ""

    def _launch(self) -> subprocess.Popen[str]:
        tools = JavaTools(jars=fetch_jars(HDFS), heap_mb=HEAP_MB)
        port = free_port()
        self.address = f"hdfs://127.0.0.1:{port}"
        (self.folder / READY_FILE).unlink(missing_ok=True)
        settings = {
            "hdfs.minidfs.basedir": str(self.folder / "data"),
            "hadoop.tmp.dir": str(self.folder / "tmp"),
            "dfs.namenode.http-address": "127.0.0.1:0",
            # Small files need no large blocks, and a flush of a test waits for no second datanode.
            "dfs.replication": "1",
            "dfs.permissions.enabled": "false",
        }
        options = [f"-D{name}={text}" for name, text in settings.items()]
        arguments = ["-nomr", "-format", "-nnport", str(port), "-datanodes", "1"]
        arguments += ["-writeDetails", str(self.folder / READY_FILE), *options]
        with self.log_file.open("a") as log:
            return tools.start(
                MAIN_CLASS, *arguments, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.folder
            )

    def _is_ready(self) -> bool:
        if not (self.folder / READY_FILE).exists():
            return False
        host, _, port = self.address.removeprefix("hdfs://").partition(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0
