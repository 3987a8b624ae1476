"""Lucene's monitor on the same queries and documents: its best of one document at a time and of batches, and of its
presearchers with one and with several passes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.search.workload import COLUMN, documents, queries
from headrace.testing.lucene_monitor import monitor

SETTINGS: tuple[dict[str, int], ...] = ({"batch": 1}, {"batch": 1, "passes": 4}, {"batch": 100})


def main(arguments: dict[str, Any]) -> dict[str, float]:
    stored = [each.lucene for each in queries(arguments["queries"])]
    texts = [[text] for text in documents(arguments["documents"])]
    best: dict[str, float] = {"documents_per_s": 0}
    for settings in SETTINGS:
        monitored, _ = monitor(
            stored,
            texts,
            [COLUMN],
            Path(arguments["folder"]),
            threads=arguments["threads"],
            rounds=arguments["rounds"],
            **settings,
        )
        speed = len(texts) / monitored.match_s
        if speed > best["documents_per_s"]:
            best = {"documents_per_s": speed, "hits": monitored.hits, "added_s": monitored.register_s}
    return best


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
