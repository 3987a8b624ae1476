"""The matcher in one process: documents per second, and the same with a loop over all queries.

The first documents are a warm-up, as for the JVM on the other side.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from benchmarks.search.workload import COLUMN, documents, queries
from headrace.operators.search.evaluate import matches
from headrace.operators.search.matcher import Matcher
from headrace.operators.search.query import Field, Kind, QueryParser, decode_query, encode_query

FIELDS = (Field(COLUMN, Kind.TEXT),)


def main(arguments: dict[str, Any]) -> dict[str, float]:
    parser = QueryParser(FIELDS)
    stored = [encode_query(parser.parse(each.text)) for each in queries(arguments["queries"])]
    contents = [[text] for text in documents(arguments["documents"])]
    matcher = Matcher(FIELDS)
    start_s = time.perf_counter()
    matcher.add(stored)
    added_s = time.perf_counter() - start_s
    for _ in range(arguments["rounds"]):
        start_s = time.perf_counter()
        hits = matcher.match(matcher.documents(contents))
        matched_s = time.perf_counter() - start_s
    trees = list(map(decode_query, stored))
    few = contents[: arguments["documents_naive"]]
    start_s = time.perf_counter()
    naive = sum(matches(tree, document) for document in matcher.documents(few) for tree in trees)
    naive_s = time.perf_counter() - start_s
    assert naive == int((hits.documents < len(few)).sum())
    return {
        "documents_per_s": len(contents) / matched_s,
        "naive_per_s": len(few) / naive_s,
        "hits": len(hits),
        "added_s": added_s,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
