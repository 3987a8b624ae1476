"""Kafka's command-line tools, many in one Java process: each is called as its script would start it.

A tool takes a second or two by itself, nearly all of it for the start of Java. A tool ends by Kafka's own `Exit`, which
calls back here. Its output is captured from Java's standard streams.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from msgspec import Struct
from py4j import java_gateway
from py4j.java_gateway import (
    CallbackServerParameters,
    GatewayParameters,
    JavaGateway,
    launch_gateway,
)
from py4j.protocol import Py4JJavaError, get_return_value

from headrace.java import java_command
from headrace.testing.java import HEAP_MB, JavaTools


class Printed(Struct, frozen=True, kw_only=True):
    """How a tool ended, and what it printed to either stream."""

    exit_code: int
    stdout: str
    stderr: str


class _Ended(Exception):
    """Unwinds a tool that asked the process to exit."""


class _Streams:
    """Java's standard streams, captured until `Exit` is called: output of the unwinding is not the tool's."""

    def __init__(self, jvm: Any) -> None:
        self._system = jvm.java.lang.System
        self._before = self._system.out, self._system.err
        self._caught = [jvm.java.io.ByteArrayOutputStream() for _ in range(2)]
        self._system.setOut(jvm.java.io.PrintStream(self._caught[0], True))
        self._system.setErr(jvm.java.io.PrintStream(self._caught[1], True))
        self.printed: Printed | None = None

    def execute(self, exit_code: int, message: str | None) -> None:
        """The procedure that Kafka's `Exit` calls."""
        self.end(exit_code)
        raise _Ended(message)

    def end(self, exit_code: int) -> Printed:
        if self.printed is None:
            stdout, stderr = (stream.toString() for stream in self._caught)
            self.printed = Printed(exit_code=exit_code, stdout=stdout, stderr=stderr)
        return self.printed

    def restore(self) -> None:
        self._system.setOut(self._before[0])
        self._system.setErr(self._before[1])

    class Java:
        implements = ("org.apache.kafka.common.utils.Exit$Procedure",)


class OneJvm:
    """Runs tools one after the other."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway = gateway
        self._jvm = gateway.jvm
        self._exit = self._jvm.org.apache.kafka.common.utils.Exit

    def run(self, main_class: str, *arguments: str, input: str = "") -> Printed:
        """Call the class's `main`. As in Java, an exception that leaves it is printed, and the exit code is 1."""
        self._jvm.java.lang.System.setIn(self._jvm.java.io.ByteArrayInputStream(input.encode()))
        streams = _Streams(self._jvm)
        self._exit.setExitProcedure(streams)
        self._exit.setHaltProcedure(streams)
        try:
            self._main(main_class, arguments)
            return streams.end(0)
        except Py4JJavaError as error:
            if streams.printed is None:
                error.java_exception.printStackTrace()
            return streams.end(1)
        finally:
            streams.restore()

    def _main(self, main_class: str, arguments: tuple[str, ...]) -> None:
        found: Any = self._jvm
        for part in main_class.split("."):
            found = getattr(found, part)
        texts = self._gateway.new_array(self._jvm.java.lang.String, len(arguments))
        for number, argument in enumerate(arguments):
            texts[number] = argument
        # pyspark replaces py4j's reader of exceptions by one that looks for them in the JVM of Spark.
        with mock.patch.object(java_gateway, "get_return_value", get_return_value):
            found.main(texts)


@contextlib.contextmanager
def one_jvm(tools: JavaTools) -> Iterator[OneJvm]:
    port = launch_gateway(
        jarpath=str(_py4j_jar()),
        classpath=f"{tools.jars}/*",
        java_path=java_command(),
        javaopts=[
            f"-Xmx{HEAP_MB}m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
        ],
        die_on_exit=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auto_convert=True),
        callback_server_parameters=CallbackServerParameters(port=0),
    )
    listening = gateway.get_callback_server().get_listening_port()
    gateway.java_gateway_server.resetCallbackClient(
        gateway.java_gateway_server.getCallbackClient().getAddress(), listening
    )
    try:
        yield OneJvm(gateway)
    finally:
        gateway.shutdown()


def _py4j_jar() -> Path:
    """Out of the installed pyspark, which brings it."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    (jar,) = Path(spec.submodule_search_locations[0]).glob("jars/py4j-*.jar")
    return jar
