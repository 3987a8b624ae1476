"""A real S3 server for tests: S3Proxy with one bucket, whose objects are in memory.

On a folder it would answer that an object `a` exists if there is only `a/b`, which S3 does not.
"""

from __future__ import annotations

import subprocess
import urllib.request
from pathlib import Path

from headrace.java import JarSet, fetch_jars
from headrace.testing.java import JavaTools
from headrace.testing.ports import free_port
from headrace.testing.server_process import ServerProcess

VERSION = "3.1.0"

S3PROXY = JarSet(
    name=f"s3proxy-{VERSION}",
    dependencies=(f"org.gaul:s3proxy:{VERSION}",),
    # Clients of other stores.
    excludes=(
        "com.amazonaws",
        "com.azure",
        "com.google.api",
        "com.google.auth",
        "com.google.cloud",
        "com.microsoft.azure",
        "com.nimbusds",
        "io.grpc",
        "io.netty",
        "io.opentelemetry",
        "io.projectreactor",
        "net.java.dev.jna",
        "software.amazon.awssdk",
    ),
)

MAIN_CLASS = "org.gaul.s3proxy.Main"
BUCKET, ACCESS_KEY, SECRET_KEY = "headrace", "headrace", "headrace-secret"
HEAP_MB = 256

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class S3Server(ServerProcess):
    """One S3 server, from entering the context until leaving it.

        with S3Server() as s3:
            session("shop", conf=s3.spark_conf())
            Job("shop", rows, sink, checkpoint=f"{s3.address}/shop")

    It listens on the loopback address only. Its objects are lost when it stops.
    """

    name = "S3Proxy"
    address = f"s3a://{BUCKET}"

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self.endpoint = ""

    def spark_conf(self) -> dict[str, str]:
        """The options with which Spark reaches the bucket."""
        options = {
            "endpoint": self.endpoint,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            # S3Proxy rejects the checksum of such a request.
            "multiobjectdelete.enable": "false",
            "access.key": ACCESS_KEY,
            "secret.key": SECRET_KEY,
        }
        return {f"spark.hadoop.fs.s3a.{name}": text for name, text in options.items()}

    def write_properties(self, path: Path) -> Path:
        """The same options as a file, for the setting `spark_properties`."""
        path.write_text("".join(f"{name} {text}\n" for name, text in self.spark_conf().items()))
        return path

    def _launch(self) -> subprocess.Popen[str]:
        jars = fetch_jars(S3PROXY)
        self.endpoint = f"http://127.0.0.1:{free_port()}"
        logback = self.folder / "logback.xml"
        logback.write_text('<configuration><root level="warn"/></configuration>\n')
        properties = {
            "s3proxy.authorization": "none",  # the bucket is created without a signature
            "s3proxy.endpoint": self.endpoint,
            "jclouds.provider": "transient",
            "jclouds.identity": "none",
            "jclouds.credential": "none",
        }
        file = self.folder / "s3proxy.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
        options = (f"-Dlogback.configurationFile={logback}",)
        tools = JavaTools(jars=jars, heap_mb=HEAP_MB, jvm_options=options)
        with self.log_file.open("a") as log:
            return tools.start(MAIN_CLASS, "--properties", str(file), stdout=log, stderr=log, cwd=self.folder)

    def _is_ready(self) -> bool:
        """Creates the bucket when the server responds."""
        creation = urllib.request.Request(f"{self.endpoint}/{BUCKET}", method="PUT")
        try:
            with _opener.open(creation, timeout=10):
                return True
        except OSError:
            return False
