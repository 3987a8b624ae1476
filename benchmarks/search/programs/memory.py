"""The memory of a matcher with many queries: how much the process has grown after they were added and indexed."""

from __future__ import annotations

import gc
import json
import os
import sys
from itertools import islice
from typing import Any

from benchmarks.processes import resident_mb
from benchmarks.search.workload import COLUMN, documents, queries
from headrace.operators.search.matcher import Matcher
from headrace.operators.search.query import Field, Kind, QueryParser, encode_query

FIELDS = (Field(COLUMN, Kind.TEXT),)


def main(arguments: dict[str, Any]) -> dict[str, float]:
    parser = QueryParser(FIELDS)
    contents = [[text] for text in documents(200)]
    matcher = Matcher(FIELDS)
    matcher.match(matcher.documents(contents))
    gc.collect()
    before_mb = resident_mb(os.getpid())
    stored = queries(arguments["queries"])
    while part := list(islice(stored, 10_000)):
        matcher.add([encode_query(parser.parse(each.text)) for each in part])
    matcher.match(matcher.documents(contents))
    gc.collect()
    return {"megabytes": resident_mb(os.getpid()) - before_mb, "queries": len(matcher)}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
