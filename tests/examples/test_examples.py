"""Every example ends by itself and prints its expected lines.

Those on Spark run in the tests' own session, which saves each of them a start, except for the few that run as a user
runs them. `both_ways` runs their jobs as a stream and bounded: a batch is a stream that ends, row by row.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.testing.requirements import require_command, require_java
from tests.examples.both_ways import run_example

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
ROOT = EXAMPLES.parent
# Examples with jobs start Spark: ten seconds, and minutes on a busy machine.
TIMEOUT_S = 600

# The expected lines; the rest of the output may change.
SHOWS: dict[str, list[str]] = {
    "first_log.py": [
        "  stored at offset 4",
        "  4: bob saw /help",
        "group audit reads the same records",
    ],
    "erasure.py": [
        "users has 3 values before",
        "erasure is complete: 2 found, 0 left",
        "users:  {'name': 'bob', 'address': 'Elm Street'}",
        "orders: {'user': 'ada', 'item': 'lamp', 'address': None}",
        "orders: {'user': 'bob', 'item': 'lamp', 'address': 'Elm Street'}",
    ],
    "archive.py": ["on disk 0.", "a consumer reads 20000 records from offset 0 on"],
    "replay.py": [
        "from offset 3:       ['order 3', 'order 4']",
        "the last 3 minutes:  ['order 2', 'order 3', 'order 4']",
        "moved back to 1:     ['order 1', 'order 2', 'order 3', 'order 4']",
    ],
    "event_sourcing.py": [
        "10 seats: 10 sold, 10 commands rejected and kept",
        "row-1-seat-1 is at version 3, and belongs to ada",
        "events: ['Reserved', 'Cancelled', 'Reserved']",
    ],
    "sqlite_changes.py": [
        "tea: u {'item': 'tea', 'count': 5} -> {'item': 'tea', 'count': 4}",
        "milk: d {'item': 'milk', 'count': 9} -> None\nmilk: a tombstone",
        "oat milk: c None -> {'item': 'oat milk', 'count': 9}",
    ],
    "outbox.py": [
        "rolled back: there is no order 3",
        'order 1: paid {"order": 1}\norder 2: paid {"order": 2}\n0 rows are left',
    ],
    "follow_view.py": ["order 3 is open\n+ order 1\n+ order 2\n+ order 3\n- order 2\n+ order 4"],
    "views.py": [
        "  ('Oslo', 2)\n  ('Rome', 1)",
        "view orders_by_city: version 2 is served, 2 rows\n  ('Oslo', 1, 20)\n  ('Rome', 2, 12)",
    ],
    "compacted_table.py": [
        "2 left after compaction, each at its old offset:",
        "  597: alice = 199",
        "  599: carol = 199",
    ],
    "test_with_pytest.py": ["test_order_is_published_under_its_id PASSED"],
    "webhooks_out.py": [
        "the shop is down",
        "the shop has [2]",
        'dead letter: {"order": 3, "amount": 200}, HTTP 422',
        "the shop has [2, 3]",
    ],
    "market_data.py": [
        "in order and each once: True\nall that was lost was recovered: True\nmissing: 0\n",
    ],
    "http_stream.py": [
        "3 orders are acknowledged\nthe first two, and then the connection is lost\n  {'order': 0, 'item': 'tea'}\n",
        "from there on, with another gateway\n  {'order': 2, 'item': 'bread'}\n  {'order': 3, 'item': 'salt'}",
    ],
    "webhooks_in.py": [
        "order-1: 200 accepted\norder-1: 200 accepted before\norder-2: 202 kept as a dead letter\n",
        "order-3: 401 not accepted\nafter a restart\norder-1: 200 accepted before\n",
        """  orders: b'ada' b'{"customer": "ada", "item": "tea"}'\n  dlq.orders: None b'{"item": "milk"}'""",
    ],
    "alerts.py": [
        "checkout: ERROR\n  mail: errors fires: service=checkout\nthe process is killed",
        "search: INFO\n  mail: errors resolved: service=checkout\nhistory: firing, resolved",
    ],
    "http_queue.py": [
        "sent to ann@example.com\nrejected: nobody\nsent to bob@example.com\n",
        "a dead letter: nobody is no address",
    ],
    "follow_asyncio.py": ["kitchen: 20.5 °C", "kitchen: 21.8 °C"],
    "transactions.py": [
        "  it crashed in a transaction",
        "  committed up to order 19",
        "20 of them count, for 20 orders",
    ],
    "queue_asyncio.py": ["200 pages are stored, the last one as pages-0@199", "200 pages are fetched"],
    "ordered_queue.py": ["20 of 20 orders went through reserve, pay, pack, ship, in this order"],
    "queue_requests.py": [
        "no worker of any group reads prices",
        "another one replies 640\n100 replies: 544500\nprices rejected the request: KeyError: 'gold'",
    ],
    "queue_run.py": ["made: 36\nnot an image: 4\nstorage was busy: 10\nstopped by SIGTERM"],
    "queue_worker.py": ["30 messages are stored", "accepted: 27", "released: 9", "rejected: 3"],
    "dead_letters.py": [
        "  orders-0@1: could not convert string to float: '9,90'",
        "redriven: 1, left: 1",
        "  order 2: charged 9.90",
    ],
    "search_index.py": [
        "  \"the log\": ['Keeping a log']",
        "  log OR logs: ['Keeping a log', 'On queues and logs']",
        "  article 1: None; 2 are left",
    ],
    "delta_table.py": [
        "300 orders, partitions ['2026-11-15', '2026-11-16']",
        "  DuckDB: Rome 100 orders for 1485.0",
        "  Spark:  100 orders of 20 and more",
    ],
    "web_server_log.py": [
        "2026-11-18T08:46  2 errors",
        "2026-11-18T08:47  7 errors",
        "2026-11-18T08:48  0 errors",
        "61 lines, 1 not parsed; events: 61 received, 61 delivered",
    ],
    "plain_spark.py": [
        (
            "a replay of the same batch, as after a crash:\n  table: 3 orders\n"
            "  search: the best hit for 'green tomatoes' is order 3"
        ),
        "another order:\n  table: 4 orders",
        "  delta: 4 orders in 3 partitions",
        "  and Spark reads back 2 of Rome",
    ],
    "declarative_pipeline/run.py": [
        "search: 3 orders; the best hit for 'green tomatoes' is order 3",
        "delta: 2 orders of Rome",
    ],
    "overload.py": ["buffer: 5000 written", "missed records", "push back: 5000 of 5000 stored"],
    "registered_orders.py": [
        "columns: id bigint, item string, at timestamp, price double\n2 dead letters",
        "  tea: not paid, key 1\n  milk: paid, key 2",
    ],
    "read_topic.py": [
        "the stream: 6 records, 3 of them dead letters",
        "  clicks@1: field at: 'yesterday' is not a TIMESTAMP",
        "  clicks@4: not JSON: Expecting value at character 0",
        "  5: dora saw /shop",
    ],
    "clicks_by_url.py": ["  /cart 7", "  /home 5", "  u0 4 2.0", "  u4 1 0.5"],
    "topic_to_topic.py": [
        "10 of 30 clicks were in the shop",
        "nothing new: still 10",
        "and then 20, of which 20 are different",
    ],
    "redis_top_urls.py": ["the first two:", "  /home: 5", "and after some more clicks:", "  /help: 10"],
    "days_and_counts.py": [
        "  attic from 2026-03-28 23:00 to 2026-03-29 22:00 UTC: at most 6.0 °C",
        "  attic, three readings: 2.0 °C on average",
        "days, of bounded rows:\n  attic 03-27 23:00 to 03-28 23:00: 3.0\n  attic 03-28 23:00 to 03-29 22:00: 6.0",
        "  cellar 03-29 12:00 to 03-29 12:01: 1\n  cellar 03-29 12:05 to 03-29 12:15: 1",
    ],
    "profiles.py": [
        "  Ann in Oslo: language no, theme dark\n  Bob in Rome: language None, theme None",
        "one is deleted:\n  Ann in Bergen: language None, theme None\n  Bob in Rome: language it, theme light\n",
    ],
    "home_timeline.py": [
        "dora follows ann and bob:\n  bob: hello\n  ann: good morning\n  in Redis: [2, 1]",
        "another one:\n  ann: good evening\n  cleo: is anybody here?\n  in Redis: [4, 3]",
    ],
    "reach.py": [
        "reach of https://example.org: 4",
        "reach of https://nowhere.example: 0",
        "cat posted ['https://example.net']",
        "rejected: the payload of 'reach' is wrong: Expected `object`, got `str`",
    ],
    "late_rows.py": [
        "  0 late, 0 of them kept",
        "  1 late, 1 of them kept",
        "  10:00 /shop: 3 in time, 1 late",
    ],
    "traffic_report.py": [
        (
            "results so far:\n  2026-03-01 10h: 116 ms, 3 requests (/shop 2, /help 1), 3 users\n"
            "  2026-03-02 10h: 639 ms, 3 requests (/shop 2, /help 1), 2 users, 3 the day before (+523 ms)"
        ),
        (
            "after a late request of yesterday:\n"
            "  2026-03-01 10h: 114 ms, 4 requests (/shop 3, /help 1), 4 users\n"
            "  2026-03-02 10h: 639 ms, 3 requests (/shop 2, /help 1), 2 users, 4 the day before (+525 ms)"
        ),
        (
            "as bounded rows:\n  2026-03-01 10h: 114 ms, 4 requests (/shop 3, /help 1), 4 users\n"
            "  2026-03-02 10h: 639 ms, 3 requests (/shop 2, /help 1), 2 users, 4 the day before (+525 ms)\n"
            "  2026-03-02 12h: 20 ms, 1 requests (/ 1), 1 users"
        ),
    ],
    "windows.py": ["results so far:", "after two late clicks:"],
    "trending_urls.py": [
        "  1. /home: 50 clicks by 40 users\n  2. /cart: 20 clicks by 20 users",
        "at noon:\n  1. /sale: 90 clicks by 40 users\n  2. /cart: 60 clicks by 40 users\n  3. /home: 50 clicks",
    ],
    "search_clicks.py": [
        "searches with a click so far:\n  tomato: 1 of 1",
        "is emitted too:\n  pear: 1 of 1\n  tomato: 1 of 2",
    ],
    "enriched_views.py": [
        "at its event time:\n  /home: Ann, free\n  /reports: Ann, paid\n  /home: nobody, no plan\n"
    ],
    "news_alerts.py": [
        "ann, article 1: Green **tea** prices rise\nbob, article 1: **Green tea** prices rise\n",
        "bob, article 2: The **café** has both.\nann, article 3: Less **tea** than last year.\nbad query 'cleo': pos",
    ],
    "window_join.py": [
        "10:00 saw: 20 % load, the thermometer is silent\n10:01 press: 95 % load, 47 °C\n10:01 press: 95 % load, 58 °C"
    ],
}
# The jobs of an example, each of which is run both ways.
JOBS: dict[str, list[str]] = {
    "read_topic.py": ["clicks"],
    "clicks_by_url.py": ["clicks-by-url", "clicks-by-user"],
    "topic_to_topic.py": ["shop-clicks"],
    "redis_top_urls.py": ["top-urls"],
    "search_index.py": ["articles"],
    "delta_table.py": ["orders-to-delta"],
}
NEEDS = {"redis_top_urls.py": "redis-server", "home_timeline.py": "redis-server"}
IN_OUR_SESSION = [
    *JOBS,
    "traffic_report.py",
    "windows.py",
    "trending_urls.py",
    "late_rows.py",
    "reach.py",
    "search_clicks.py",
    "enriched_views.py",
    "news_alerts.py",
    "window_join.py",
    "days_and_counts.py",
    "profiles.py",
    "home_timeline.py",
    "registered_orders.py",
]
BY_THEMSELVES = [name for name in SHOWS if name not in IN_OUR_SESSION]
SLOW_HERE = (
    "home_timeline.py",
    "news_alerts.py",
    "delta_table.py",
    "profiles.py",
    "traffic_report.py",
    "late_rows.py",
    "days_and_counts.py",
)
ALONE_ONLY_SLOW = (
    "declarative_pipeline/run.py",
    "clicks_by_url.py",
    "plain_spark.py",
    "follow_view.py",
    "views.py",
)
"""Each starts a Spark of its own. The second runs in our session as well, and pages run the third and the fourth."""
STARTS_SPARK_ITSELF = [
    "clicks_by_url.py",
    "plain_spark.py",
    "declarative_pipeline/run.py",
    "follow_view.py",
    "views.py",
]


def test_every_example_is_run_here() -> None:
    there = [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*/run.py")]
    assert {path.relative_to(EXAMPLES).as_posix() for path in there} == SHOWS.keys()


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW_HERE else []) for name in IN_OUR_SESSION],
)
def test_example_on_spark_prints_its_output_and_its_jobs_emit_the_same_bounded(
    name: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    require(name)
    monkeypatch.chdir(tmp_path)
    run_example(EXAMPLES / name, compared=JOBS.get(name, ()), hooks=monkeypatch)

    printed = capsys.readouterr().out
    assert_shown(name, printed)
    both_ways = re.findall(r"^both ways: (.+): [1-9]\d* rows$", printed, re.MULTILINE)
    assert sorted(both_ways) == JOBS.get(name, []), printed


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in ALONE_ONLY_SLOW else [])
        for name in [*BY_THEMSELVES, "clicks_by_url.py"]
    ],
)
def test_example_runs_and_prints_its_output(name: str, tmp_path: Path) -> None:
    require(name)
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert_shown(name, done.stdout)


def assert_shown(name: str, printed: str) -> None:
    assert [line for line in SHOWS[name] if line not in printed] == [], printed


def require(name: str) -> None:
    if name in STARTS_SPARK_ITSELF:
        require_java()
    if name in NEEDS:
        require_command(NEEDS[name], install=f"Debian: apt-get install {NEEDS[name]}")
