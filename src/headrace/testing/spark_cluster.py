"""A real Spark cluster for tests: a standalone master and workers on this machine, from the jars of pyspark."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.java import last_lines
from headrace.testing.ports import free_port
from headrace.testing.server_process import READY_TIMEOUT_S, STOP_TIMEOUT_S, ServerUnavailable

DAEMON_MEMORY = "256m"
"""Masters and workers only manage executors, which do the work."""


class SparkCluster:
    """A master and workers, from entering the context until leaving it.

        with SparkCluster(workers=2) as cluster:
            session("shop", master=cluster.master)

    Each worker has one core and `worker_memory` for executors. Everything listens on the loopback address only.

    `hidden`: folders that workers do not see, as on machines of their own. Then each of them also has an empty
    folder in place of this cluster's `folder`, so that the workers share none. It needs the `unshare` of Linux.
    """

    def __init__(self, *, workers: int = 2, worker_memory: str = "1g", hidden: Sequence[Path] = ()) -> None:
        self._hidden = tuple(hidden)
        self._workers = workers
        self._worker_memory = worker_memory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-spark-cluster-"))
        self.master = ""

    def start(self) -> Self:
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        try:
            log = self._run("master", "master.Master", "--port", str(port))
            self._wait_for(log, "New state: ALIVE")
            logs = [self._start_worker(number) for number in range(self._workers)]
            for log in logs:
                self._wait_for(log, "Successfully registered with master")
        except BaseException:
            self._end_processes()
            raise
        return self

    def stop(self) -> None:
        self._end_processes()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_worker(self, number: int) -> Path:
        work = self.folder / f"worker-{number}"
        return self._run(
            f"worker-{number}",
            "worker.Worker",
            *("--cores", "1", "--memory", self._worker_memory, "--work-dir", str(work), self.master),
            before=_hiding([*self._hidden, self.folder]) if self._hidden else (),
        )

    def _run(self, name: str, main_class: str, *arguments: str, before: Sequence[str] = ()) -> Path:
        """Start a master or a worker; returns the path of its log."""
        home = _spark_home()
        command = [*before, str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main_class}"]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
            "SPARK_LOCAL_DIRS": str(self.folder / f"{name}-local"),
        }
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            # spark-class becomes the Java process itself, so the signal that ends it reaches Java.
            self._processes.append(
                subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=self.folder)
            )
        return log

    def _wait_for(self, log: Path, words: str) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if words in log.read_text(errors="replace"):
                return
            if any(process.poll() is not None for process in self._processes):
                break
            time.sleep(0.1)
        output = last_lines(log.read_text(errors="replace"))
        raise ServerUnavailable(
            f"{log.stem} of the Spark cluster is not ready; its last output:\n{output}",
            hint=f"the logs are in {self.folder}",
        )

    def _end_processes(self) -> None:
        """Workers first: they end their executors."""
        processes, self._processes = self._processes[::-1], []
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _hiding(folders: Sequence[Path]) -> list[str]:
    """The beginning of a command that becomes another one, which sees these folders empty."""
    unshare = shutil.which("unshare")
    if unshare is None:
        raise ServerUnavailable("unshare is not installed", hint="it is a part of util-linux")
    mounts = " && ".join(f"mount -t tmpfs headrace {shlex.quote(str(folder))}" for folder in folders)
    return [unshare, "--map-root-user", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh"]


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServerUnavailable("pyspark is not installed", hint="pip install 'headrace[spark]'")
    return Path(spec.origin).parent
