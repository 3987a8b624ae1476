"""A real OpenSearch for tests: one node on this machine.

The distribution has a part that no repository of Java packages has, which loads plugins from folders. So the node is
started in a JVM of its own by Py4J, with its plugins on the class path, as OpenSearch's own tests start theirs.
"""

from __future__ import annotations

import glob
import importlib.util
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from headrace.java import JarSet, fetch_jars, java_of_version
from headrace.testing.ports import free_ports
from headrace.testing.server_process import ServerProcess

VERSION = "2.19.3"
"""The newest line that runs on Java 17."""

OPENSEARCH = JarSet(
    name=f"opensearch-{VERSION}",
    dependencies=(
        f"org.opensearch:opensearch:{VERSION}",
        f"org.opensearch.plugin:transport-netty4-client:{VERSION}",
        # Part of every distribution: it deletes by query.
        f"org.opensearch.plugin:reindex-client:{VERSION}",
        "org.apache.logging.log4j:log4j-core:2.21.0",
    ),
)

PLUGINS = ("org.opensearch.transport.Netty4Plugin", "org.opensearch.index.reindex.ReindexPlugin")

HEAP_MB = 512
JAVA_MIN = 17

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class OpenSearchServer(ServerProcess):
    """One OpenSearch, from entering the context until leaving it.

    with OpenSearchServer() as server:
        urllib.request.urlopen(server.address)
    """

    name = "OpenSearch"

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self.address = ""

    def _launch(self) -> subprocess.Popen[Any]:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        java_of_version(JAVA_MIN)
        jars = fetch_jars(OPENSEARCH)
        with self.log_file.open("a") as log:
            port, token, process = launch_gateway(
                jarpath=_py4j_jar(),
                classpath=f"{jars}/*",
                javaopts=[f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
                die_on_exit=True,
                enable_auth=True,
                redirect_stdout=log,
                redirect_stderr=log,
                return_proc=True,
            )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        try:
            _start_node(gateway, self._settings())
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            gateway.close()
        assert isinstance(process, subprocess.Popen)
        return process

    def _settings(self) -> dict[str, str]:
        http_port, transport_port = free_ports(2)
        self.address = f"http://127.0.0.1:{http_port}"
        return {
            "path.home": str(self.folder),
            "path.data": str(self.folder / "data"),
            "cluster.name": "headrace",
            "node.name": "one",
            "discovery.type": "single-node",
            "network.host": "127.0.0.1",
            "http.port": str(http_port),
            "transport.port": str(transport_port),
            "http.type": "netty4",
            "transport.type": "netty4",
            # A disk that is nearly full makes indexes read-only; a test needs a few megabytes.
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }

    def _is_ready(self) -> bool:
        try:
            with _opener.open(f"{self.address}/_cluster/health", timeout=10) as response:
                return bool(response.status == 200)
        except (OSError, urllib.error.URLError):
            return False


def _start_node(gateway: Any, settings: dict[str, str]) -> None:
    """`new Node(environment, plugins, true).start()`; the constructor is for subclasses."""
    java, opensearch = gateway.jvm.java, gateway.jvm.org.opensearch
    builder = opensearch.common.settings.Settings.builder()
    for name, text in settings.items():
        builder.put(name, text)
    find = java.lang.Class.forName
    types = gateway.new_array(java.lang.Class, 3)
    types[0], types[1], types[2] = (
        find("org.opensearch.env.Environment"),
        find("java.util.Collection"),
        java.lang.Boolean.TYPE,
    )
    constructor = find("org.opensearch.node.Node").getDeclaredConstructor(types)
    constructor.setAccessible(True)
    plugins = java.util.ArrayList()
    for name in PLUGINS:
        plugins.add(find(name))
    arguments = gateway.new_array(java.lang.Object, 3)
    arguments[0], arguments[1], arguments[2] = (
        opensearch.env.Environment(builder.build(), None),
        plugins,
        True,
    )
    constructor.newInstance(arguments).start()


def _py4j_jar() -> str:
    """A part of pyspark, which is not imported, because the import is slow."""
    spec = importlib.util.find_spec("pyspark")
    locations = (spec.submodule_search_locations or []) if spec else []
    found = [jar for location in locations for jar in glob.glob(f"{location}/jars/py4j-*.jar")]
    assert found, "the test kit needs pyspark"
    return found[0]
