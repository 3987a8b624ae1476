"""Transactions in their log, and back."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.state_topic import read_state
from headrace.broker.transactions.state import ClientVersion, Transaction, TransactionState
from headrace.broker.transactions.storage import StoredTransactions, entry
from headrace.records.record import Record, encode_batch
from tests.log.batches import NOW_MS, NotSyncing, open_log

NAMES = st.text(min_size=1, max_size=5)
TRANSACTIONS = st.builds(
    Transaction,
    transactional_id=NAMES,
    producer_id=st.integers(0, 2**40),
    producer_epoch=st.integers(0, 2**15 - 1),
    previous_producer_id=st.integers(-1, 2**40),
    next_producer_id=st.integers(-1, 2**40),
    timeout_ms=st.integers(1, 900_000),
    state=st.sampled_from([state for state in TransactionState if state > 0]),
    partitions=st.frozensets(st.builds(TopicPartition, NAMES, st.integers(0, 100)), max_size=4),
    updated_ms=st.integers(0, 2**40),
    started_ms=st.integers(-1, 2**40),
    client_version=st.sampled_from(ClientVersion),
)


@given(st.lists(TRANSACTIONS, max_size=8))
def test_last_state_of_every_id_is_read(written: list[Transaction]) -> None:
    with TemporaryDirectory() as folder:
        log = open_log(Path(folder), files=NotSyncing())
        expected: dict[str, Transaction] = {}
        for one in written:
            record = Record(offset=0, timestamp_ms=NOW_MS, key=entry(one).key, value=entry(one).value)
            log.append(encode_batch([record]), now_ms=NOW_MS, from_client=False)
            expected[one.transactional_id] = one
        alive = {name: one for name, one in expected.items() if one.state is not TransactionState.DEAD}
        found = read_state(log, StoredTransactions(), 1 << 20)
        assert found.by_id == alive
