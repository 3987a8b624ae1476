"""Compare stored queries with a loop over all of them and with Lucene's monitor, and measure their memory."""

from __future__ import annotations

from benchmarks.command import run_command
from benchmarks.search.bench import FULL, QUICK, Bench, Subject
from benchmarks.search.subjects.memory import Memory
from benchmarks.search.subjects.stored_queries import OnSpark, StoredQueries

SUBJECTS: tuple[type[Subject], ...] = (StoredQueries, OnSpark, Memory)


if __name__ == "__main__":
    run_command(
        about="Compare stored queries with a loop over all of them and with Lucene's monitor.",
        name="search",
        subjects=SUBJECTS,
        rows_example="search-*",
        bench=Bench,
        sizes=FULL,
        quick_sizes=QUICK,
    )
