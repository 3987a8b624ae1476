"""The transaction coordinator: which transactions are open, and how they end; durable.

Everything here happens in the event loop's thread. A request takes effect when its method is called: the new state is
appended and in memory before anything else happens, and then only has to become durable. So the order of the log is the
order of the requests.

A transaction ends in three steps, each durable before the next: the decision is stored, every partition gets a marker,
the end is stored. A start after a crash continues with the next step.

If a request fails because of a full disk, the client retries it. What no client retries (the abort of a transaction
that timed out, each step of an end) the coordinator retries until it succeeds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.log_throttle import LogThrottle
from headrace.broker.partition import Pending
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.rejections import RequestRejected
from headrace.broker.retries import RETRY_MS_MAX, until_done
from headrace.broker.runtime import Runtime
from headrace.broker.state_topic import Coordinator, StateTopic
from headrace.broker.timers import Timers
from headrace.broker.topics import Topics
from headrace.broker.transactions import rules, storage
from headrace.broker.transactions.markers import Markers, OpenTransaction, unknown_transactions
from headrace.broker.transactions.state import (
    ClientVersion,
    Producer,
    Transaction,
    TransactionState,
    Trigger,
)
from headrace.errors import HeadraceError
from headrace.log.errors import StorageFailed
from headrace.protocol.error_codes import ErrorCode
from headrace.records.batch import NO_PRODUCER_ID

logger = logging.getLogger(__name__)


class TransactionCounters:
    """How transactions ended since the start, for metrics."""

    def __init__(self) -> None:
        self.committed = 0
        self.aborted = 0
        self.timed_out = 0
        """Of the aborted ones, those that timed out."""


class TransactionCoordinator(Coordinator):
    def __init__(
        self,
        runtime: Runtime,
        *,
        topics: Topics,
        state: StateTopic,
        markers: Markers,
        groups: GroupCoordinator,
        producer_ids: ProducerIds,
        log_throttle: LogThrottle,
    ) -> None:
        super().__init__(runtime, state)
        self._settings = runtime.settings
        self._topics = topics
        self._markers = markers
        self._groups = groups
        self._producer_ids = producer_ids
        self._log_throttle = log_throttle
        self.counters = TransactionCounters()
        self._transactions: dict[str, Transaction] = {}
        self._appended: dict[str, Pending] = {}
        """The last record of each id, if it was appended since the start."""
        self._timers: Timers[str] = Timers(runtime.loop, runtime.clock, self._timed_out)
        self._unknown: set[OpenTransaction] = set()
        """Open in partitions at the start and in no known transaction, until they are aborted."""

    # From start to stop

    async def _load(self) -> None:
        # Without some transactions the broker would lose what they had decided.
        stored = await self._topic.load(storage.StoredTransactions, on_failure=self._not_loaded)
        if stored is None:
            return
        self._transactions = stored.by_id
        # The end of a transaction commits its offsets, so they must be loaded.
        await self._groups.loaded()
        if self._unavailable is ErrorCode.NOT_COORDINATOR:
            return  # stopped in the meantime
        self._unavailable = None
        self._unknown = unknown_transactions(self._topics.partitions(), self._transactions.values())
        for unknown in self._unknown:
            self._tasks.start(self._abort_unknown(unknown))
        for transaction in [*self._transactions.values()]:
            if transaction.state.is_prepared:
                self._finish_later(transaction)
            elif transaction.state is TransactionState.ONGOING:
                open_ms = self._clock.now_ms() - transaction.started_ms
                self._timers.arm(transaction.transactional_id, max(0, transaction.timeout_ms - open_ms))
        logger.info("transactions loaded", extra={"transactions": len(self._transactions)})

    async def _abort_unknown(self, unknown: OpenTransaction) -> None:
        logger.warning("%s belongs to no known transaction, and is aborted", unknown)
        await self._until_done(f"{unknown} is not aborted", partial(self._markers.abort, unknown))
        self._unknown.discard(unknown)

    def close(self) -> None:
        """Cancel all time-outs; the next start completes what is prepared."""
        super().close()
        self._timers.close()
        self._tasks.cancel()

    # Looking

    def transactions(self) -> Collection[Transaction]:
        self.require_available()
        return self._transactions.values()

    def transaction(self, transactional_id: str) -> Transaction | None:
        self.require_available()
        return self._transactions.get(transactional_id)

    # Requests of producers

    def init_producer(
        self, transactional_id: str, *, timeout_ms: int, expected: Producer | None
    ) -> Awaitable[Producer]:
        """A new epoch for an id, which fences producers with older ones. Raises RequestRejected."""
        self.require_available()
        if not 0 < timeout_ms <= self._settings.transaction_timeout_ms_max:
            raise RequestRejected(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        now_ms = self._clock.now_ms()
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            self._require_room()
            after = Transaction(
                transactional_id=transactional_id,
                producer_id=self._new_producer_id(),
                producer_epoch=0,
                timeout_ms=timeout_ms,
                updated_ms=now_ms,
            )
        else:
            after = rules.init_producer(
                transaction,
                expected,
                spare_producer_id=self._spare_producer_id(transaction),
                timeout_ms=timeout_ms,
                now_ms=now_ms,
            )
        self._put(after)
        if after.state.is_prepared:
            self._finish_later(after)
            raise RequestRejected(ErrorCode.CONCURRENT_TRANSACTIONS)
        return self._when_durable(after)

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: ClientVersion,
    ) -> Pending | None:
        """Add partitions to a transaction, which starts with the first of them. Raises RequestRejected.

        Returns what has to be durable before the client may rely on that; None if it was durable at the start. Also
        if nothing changes: another request may have added the partition a moment ago.
        """
        self.require_available()
        if self._unknown and not self._unknown.isdisjoint(
            OpenTransaction(producer.id, name) for name in partitions
        ):
            # Otherwise records that are to be aborted would become part of this transaction.
            raise RequestRejected(ErrorCode.CONCURRENT_TRANSACTIONS)
        before = self._known(transactional_id)
        after = rules.add_partitions(
            before, producer, partitions, client_version=client_version, now_ms=self._clock.now_ms()
        )
        if after is not before:
            self._put(after)
        if before.state is not TransactionState.ONGOING:
            self._timers.arm(transactional_id, after.timeout_ms)
        return self._appended.get(transactional_id)

    def check_partition(self, transactional_id: str, producer: Producer, partition: TopicPartition) -> None:
        """Raise RequestRejected unless the partition is part of the producer's open transaction."""
        self.require_available()
        rules.check_partition(self._known(transactional_id), producer, partition)

    def end(
        self, transactional_id: str, producer: Producer, *, is_commit: bool, client_version: ClientVersion
    ) -> Awaitable[Producer]:
        """Commit or abort. Raises RequestRejected, also from the awaitable.

        Done when the decision is durable and the partitions have their markers, or can't have them now. The result is
        the producer's id and epoch from then on.
        """
        self.require_available()
        before = self._known(transactional_id)
        after = rules.end(
            before,
            producer,
            is_commit=is_commit,
            client_version=client_version,
            spare_producer_id=self._spare_producer_id(before),
            now_ms=self._clock.now_ms(),
        )
        if after is before:
            return self._when_durable(before)
        self._put(after)
        return self._finish_later(after)

    def _known(self, transactional_id: str) -> Transaction:
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise RequestRejected(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def _timed_out(self, transactional_id: str) -> None:
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.state is not TransactionState.ONGOING:
            return
        # First: if the abort fails, the timer retries it.
        self._timers.arm(transactional_id, RETRY_MS_MAX)
        fenced = rules.fence(transaction, self._clock.now_ms())
        try:
            self._put(fenced)
        except RequestRejected:
            return  # logged already
        logger.warning("transaction of %r timed out and is aborted", transactional_id)
        self.counters.timed_out += 1
        self._finish_later(fenced)

    # Ending

    def _finish_later(self, prepared: Transaction) -> Awaitable[Producer]:
        self._timers.cancel(prepared.transactional_id)
        decision: asyncio.Future[Producer] = self._runtime.loop.create_future()
        # The client may have disconnected: then its exception is not used.
        decision.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._tasks.start(self._finish(prepared, decision))
        return decision

    async def _finish(self, prepared: Transaction, decision: asyncio.Future[Producer]) -> None:
        name = prepared.transactional_id

        def undecided(failure: Exception) -> None:
            if not decision.done():
                decision.set_exception(RequestRejected(ErrorCode.COORDINATOR_NOT_AVAILABLE))

        def decided(_: Exception | None = None) -> None:
            # The decision holds after every start. The client retries until the end is stored.
            if not decision.done():
                decision.set_result(rules.complete(prepared, prepared.updated_ms).producer)

        durable = partial(self._durable, name)
        await self._until_done(f"decision on the transaction of {name!r} is not stored", durable, undecided)
        write = partial(self._markers.write, prepared)
        await self._until_done(f"transaction of {name!r} can't end", write, decided)
        if prepared.state.is_commit:
            self.counters.committed += 1
        else:
            self.counters.aborted += 1
        store = partial(self._store_end, prepared)
        await self._until_done(f"end of the transaction of {name!r} is not stored", store, decided)
        decided()

    async def _store_end(self, prepared: Transaction) -> None:
        # No client waits for it: without this record the next start finds the markers and completes the transaction.
        self._topic.flush_soon(self._put(rules.complete(prepared, self._clock.now_ms())))

    async def _until_done(
        self,
        failing: str,
        attempt: Callable[[], Awaitable[None]],
        on_failure: Callable[[Exception], None] = lambda failure: None,
    ) -> None:
        """Retry until it succeeds, and log failures now and then."""

        def failed(failure: Exception) -> None:
            self._log_failure(failing, failure)
            on_failure(failure)

        await until_done(attempt, on_failure=failed)

    # Expiration

    def expire(self, now_ms: int) -> None:
        """Remove ids that were not used for `transactional_id_expiration_ms`."""
        if self._unavailable is not None:
            return
        expiration_ms = self._settings.transactional_id_expiration_ms
        old = [one for one in self._transactions.values() if rules.is_expired(one, now_ms, expiration_ms)]
        for transaction in old:
            try:
                self._topic.flush_soon(self._put(transaction.moved(Trigger.EXPIRED, now_ms)))
            except RequestRejected:
                return  # logged already; the next round retries
        if old:
            logger.info("transactional ids expired", extra={"transactional_ids": len(old)})

    # Storing

    def _put(self, transaction: Transaction) -> Pending:
        """Append the new state of a transaction, and make it the current one."""
        name = transaction.transactional_id
        try:
            pending = self._topic.append([storage.entry(transaction)])
        except (HeadraceError, OSError) as failure:
            raise self._not_stored(f"transaction of {name!r}", failure) from failure
        if transaction.state is TransactionState.DEAD:
            del self._transactions[name]
            self._appended.pop(name, None)
        else:
            self._transactions[name] = transaction
            self._appended[name] = pending
        return pending

    async def _durable(self, transactional_id: str) -> None:
        """Wait until the state of an id is durable."""
        pending = self._appended.get(transactional_id)
        if pending is not None:
            await self._topic.durable(pending)

    async def _when_durable(self, transaction: Transaction) -> Producer:
        try:
            await self._durable(transaction.transactional_id)
        except (HeadraceError, OSError) as failure:
            raise self._not_stored(f"producer {transaction.producer_id}", failure) from failure
        return transaction.producer

    def _not_stored(self, what: str, failure: Exception) -> RequestRejected:
        self._log_failure(f"{what} is not stored", failure)
        return RequestRejected(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _log_failure(self, failing: str, failure: Exception) -> None:
        """With a full disk every transaction fails again and again: the log gets one line for many of them.

        Health reports the disk and read-only partitions itself; only unexpected failures are reported to it here.
        """
        repeated = self._log_throttle.suppressed(self._clock.monotonic_s(), "transactions", type(failure))
        if repeated is None:
            return
        if isinstance(failure, (HeadraceError, OSError)):
            logger.error("%s: %s", failing, failure, extra={"repeated": repeated})
        else:
            self._runtime.failures.report("transactions", failure, work=failing, repeated=repeated)

    def _new_producer_id(self) -> int:
        try:
            return self._producer_ids.allocate()
        except StorageFailed as failure:
            raise self._not_stored("block of producer ids", failure) from failure

    def _spare_producer_id(self, transaction: Transaction) -> int:
        return self._new_producer_id() if transaction.is_exhausted else NO_PRODUCER_ID

    def _require_room(self) -> None:
        if len(self._transactions) >= self._settings.transactional_ids_max:
            logger.warning("transactional id rejected: raise transactional_ids_max")
            raise RequestRejected(ErrorCode.POLICY_VIOLATION)
