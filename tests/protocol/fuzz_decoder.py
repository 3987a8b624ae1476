"""Fuzz every decoder of `headrace.protocol`, guided by coverage.

    pip install atheris
    python -m tests.protocol.fuzz_decoder --runs 1000000

The first input that decodes to anything but a message or `MalformedMessage` ends the run, and is written to a
file `crash-…`. Otherwise it prints how many inputs were tried.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
from pathlib import Path

import atheris

from headrace.protocol import codec, framing, primitives, stored_format
from tests.protocol.decoding import check, seeds

INPUT_BYTES_MAX = 4096
"""Longer inputs only repeat what shorter ones do: the largest seed has some hundred bytes."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1_000_000, help="how many inputs to try")
    parser.add_argument("--seconds", type=int, default=0, help="end after this time, too (0: no limit)")
    arguments = parser.parse_args()
    instrument()
    with tempfile.TemporaryDirectory(prefix="headrace-fuzz-") as corpus:
        for number, seed in enumerate(seeds()):
            (Path(corpus) / f"seed-{number}").write_bytes(seed)
        atheris.Setup(
            [
                sys.argv[0],
                f"-runs={arguments.runs}",
                f"-max_total_time={arguments.seconds}",
                f"-max_len={INPUT_BYTES_MAX}",
                "-print_final_stats=1",
                corpus,
            ],
            check,
        )
        atheris.Fuzz()


def instrument() -> None:
    """Report coverage to the fuzzer, in the generated code too, which no import hook sees."""
    for place in (primitives, framing, stored_format, stored_format.StoredTopic):
        module_name = place.__module__ if isinstance(place, type) else place.__name__
        for value in list(vars(place).values()):
            # The function inside the cache is instrumented in place.
            function = inspect.unwrap(value) if callable(value) else value
            if inspect.isfunction(function) and function.__module__ == module_name:
                atheris.instrument_func(function)
    for made in codec._CODECS.values():
        atheris.instrument_func(made.read)


if __name__ == "__main__":
    main()
