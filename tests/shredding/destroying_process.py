"""Destroys keys until it is killed: python -m tests.shredding.destroying_process STORE FIRST LAST

It prints the number of each person whose key was destroyed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headrace.shredding import KeyStore


def start(store: Path, first: int, last: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.shredding.destroying_process", str(store), str(first), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def main() -> None:
    path, first, last = sys.argv[1:]
    store = KeyStore(path)
    print("ready", flush=True)
    for number in range(int(first), int(last)):
        store.destroy(f"person {number}")
        print(number, flush=True)


if __name__ == "__main__":
    main()
