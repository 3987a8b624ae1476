"""Kafka 4.3's own command-line tools print the same of Headrace as of Apache Kafka: both run, and are compared.

What must differ is not compared (`tool_comparison`): addresses, ids, times, and the wording of errors.
What differs by decision is in docs/compatibility.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.testing.java import JavaTools
from tests.compatibility.brokers import BrokerUnderTest, running_broker
from tests.compatibility.java_programs import (
    API_VERSIONS_COMMAND,
    CLIENT_METRICS_COMMAND,
    CLUSTER_TOOL,
    CONFIG_COMMAND,
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    CONSOLE_SHARE_CONSUMER,
    CONSUMER_GROUP_COMMAND,
    CONSUMER_PERFORMANCE,
    DELETE_RECORDS_COMMAND,
    DUMP_LOG_SEGMENTS,
    END_TO_END_LATENCY,
    FEATURE_COMMAND,
    GET_OFFSET_SHELL,
    GROUPS_COMMAND,
    LEADER_ELECTION_COMMAND,
    LOG_DIRS_COMMAND,
    METADATA_QUORUM_COMMAND,
    PRODUCER_PERFORMANCE,
    REASSIGN_COMMAND,
    SHARE_CONSUMER_PERFORMANCE,
    SHARE_GROUP_COMMAND,
    STREAMS_GROUP_COMMAND,
    STREAMS_RESETTER,
    TOPIC_COMMAND,
    TRANSACTIONS_COMMAND,
    VERIFIABLE_CONSUMER,
    VERIFIABLE_PRODUCER,
    VERIFIABLE_SHARE_CONSUMER,
)
from tests.compatibility.one_jvm import OneJvm, one_jvm
from tests.compatibility.tool_comparison import Comparison

AT = "--bootstrap-server BROKER"

# APIs between brokers, of security, which is not supported yet, and of share state, which only brokers request.
NOT_SERVED = {
    *("SaslHandshake", "SaslAuthenticate", "DescribeAcls", "CreateAcls", "DeleteAcls"),
    *(f"{verb}DelegationToken" for verb in ("Create", "Renew", "Expire", "Describe")),
    *("AlterUserScramCredentials", "AddRaftVoter", "RemoveRaftVoter"),
    *(f"{verb}ShareGroupState" for verb in ("Initialize", "Read", "Write", "Delete")),
    *("ReadShareGroupStateSummary", "StreamsGroupHeartbeat", "StreamsGroupDescribe"),
}


@pytest.fixture(scope="module")
def brokers(
    tools_4_3: JavaTools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, BrokerUnderTest]]:
    with (
        running_broker("kafka", tmp_path_factory.mktemp("kafka")) as kafka,
        running_broker("headrace", tmp_path_factory.mktemp("headrace")) as headrace,
    ):
        yield {"kafka": kafka, "headrace": headrace}


@pytest.fixture(scope="module")
def jvm(tools_4_3: JavaTools) -> Iterator[OneJvm]:
    with one_jvm(tools_4_3) as running:
        yield running


@pytest.fixture(scope="module")
def same(jvm: OneJvm, brokers: dict[str, BrokerUnderTest]) -> Comparison:
    return Comparison(jvm, brokers)


MakeTopic = Callable[..., None]


@pytest.fixture
def make_topic(same: Comparison) -> MakeTopic:
    def make(name: str, *values: str, partitions: int = 1) -> None:
        same(TOPIC_COMMAND, f"{AT} --create --topic {name} --partitions {partitions}")
        same(TOPIC_COMMAND, f"{AT} --describe --topic {name}")
        if values:
            same(
                CONSOLE_PRODUCER,
                f"{AT} --sync --timeout 0 --topic {name}",
                input="".join(f"{value}\n" for value in values),
            )

    return make


# The cluster


def test_features(same: Comparison) -> None:
    upgrade = f"{AT} upgrade --feature"
    # A Kafka that was formatted with voters in its properties starts without the feature.
    assert "was upgraded to 1" in same(FEATURE_COMMAND, f"{upgrade} kraft.version=1")
    for feature in ("metadata.version=30", "group.version=1", "transaction.version=2", "share.version=1"):
        same(FEATURE_COMMAND, f"{upgrade} {feature}")
    same(FEATURE_COMMAND, f"{upgrade} metadata.version=30 --dry-run")
    for impossible in ("group.version=2", "no.such.feature=1"):
        same(FEATURE_COMMAND, f"{upgrade} {impossible}", fails=True)
    same(FEATURE_COMMAND, f"{AT} disable --feature metadata.version --dry-run", fails=True)
    same(FEATURE_COMMAND, f"{AT} downgrade --metadata 4.0 --dry-run", fails=True)


def test_features_are_described_as_by_kafka_but_for_streams_groups(
    jvm: OneJvm, brokers: dict[str, BrokerUnderTest]
) -> None:
    def described(broker: BrokerUnderTest) -> set[str]:
        printed = jvm.run(FEATURE_COMMAND, "--bootstrap-server", broker.bootstrap, "describe").stdout
        return {re.sub(r"\s+Epoch: \d+", "", line).strip() for line in printed.splitlines()}

    missing = described(brokers["kafka"]) - described(brokers["headrace"])
    assert [line.split()[1] for line in missing if "kraft.version" not in line] == ["streams.version"]
    assert any("4.3-IV0" in line for line in described(brokers["headrace"]))


def test_metadata_quorum(same: Comparison, jvm: OneJvm, brokers: dict[str, BrokerUnderTest]) -> None:
    same(FEATURE_COMMAND, f"{AT} upgrade --feature kraft.version=1")
    assert "LeaderId: 1" in same(METADATA_QUORUM_COMMAND, f"{AT} describe --status")
    for options in ("--replication", "--replication --human-readable"):
        for broker in brokers.values():
            address = ("--bootstrap-server", broker.bootstrap)
            printed = jvm.run(METADATA_QUORUM_COMMAND, *address, "describe", *options.split())
            (voter,) = printed.stdout.splitlines()[1:]
            node, _, end, lag, *_, status = voter.split("\t")[:7]
            assert (node.strip(), lag.strip(), status.strip()) == ("1", "0", "Leader"), broker
            assert int(end) >= 0


def test_cluster(same: Comparison) -> None:
    assert "Cluster ID: ID" in same(CLUSTER_TOOL, f"cluster-id {AT}")
    assert "unfenced broker" in same(CLUSTER_TOOL, f"list-endpoints {AT}")
    same(CLUSTER_TOOL, f"unregister {AT} --id 7", fails=True)


def test_api_versions_are_kafkas_where_an_api_is_served(
    jvm: OneJvm, brokers: dict[str, BrokerUnderTest]
) -> None:
    def served(broker: BrokerUnderTest) -> dict[str, str]:
        printed = jvm.run(API_VERSIONS_COMMAND, "--bootstrap-server", broker.bootstrap)
        assert printed.exit_code == 0, printed
        found = re.findall(r"^\t(\w+)\(\d+\): (.*?),?$", printed.stdout, re.MULTILINE)
        return {name: versions for name, versions in found if versions != "UNSUPPORTED"}

    of_kafka = served(brokers["kafka"])
    assert served(brokers["headrace"]) == {
        name: versions for name, versions in of_kafka.items() if name not in NOT_SERVED
    }
    assert of_kafka.keys() >= NOT_SERVED


# Topics, partitions, records


def test_topics(same: Comparison) -> None:
    topic = "topics"
    same(TOPIC_COMMAND, f"{AT} --create --topic {topic} --partitions 2 --config retention.ms=3600000")
    same(TOPIC_COMMAND, f"{AT} --create --topic {topic}", fails=True)
    same(TOPIC_COMMAND, f"{AT} --create --topic {topic} --if-not-exists")
    same(TOPIC_COMMAND, f"{AT} --create --topic two-replicas --replication-factor 2", fails=True)
    same(TOPIC_COMMAND, f"{AT} --create --topic elsewhere --replica-assignment 2", fails=True)
    same(TOPIC_COMMAND, f"{AT} --create --topic misconfigured --config retention.ms=soon", fails=True)
    same(TOPIC_COMMAND, f"{AT} --create --topic assigned --replica-assignment 1,1")
    assert "retention.ms=3600000" in same(TOPIC_COMMAND, f"{AT} --describe --topic {topic}")
    same(TOPIC_COMMAND, f"{AT} --alter --topic {topic} --partitions 3")
    assert "PartitionCount: 3" in same(TOPIC_COMMAND, f"{AT} --describe --topic {topic}")
    same(TOPIC_COMMAND, f"{AT} --alter --topic {topic} --partitions 2", fails=True)
    for state in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        same(TOPIC_COMMAND, f"{AT} --describe --topic {topic} --{state}-partitions")
    same(TOPIC_COMMAND, f"{AT} --describe --topic {topic} --topics-with-overrides")
    same(TOPIC_COMMAND, f"{AT} --list --topic topics|assigned")
    same(TOPIC_COMMAND, f"{AT} --delete --topic assigned")
    same(TOPIC_COMMAND, f"{AT} --list --topic topics|assigned")
    for missing in ("--describe", "--delete", "--alter --partitions 2"):
        same(TOPIC_COMMAND, f"{AT} {missing} --topic no-such-topic", fails=True)


def test_offsets_and_deleted_records(same: Comparison, make_topic: MakeTopic, tmp_path: Path) -> None:
    make_topic("offsets", "a", "b", "c")
    for when in ("latest", "earliest", "earliest-local", "1"):
        assert "offsets:0:" in same(GET_OFFSET_SHELL, f"{AT} --topic offsets --time {when}")
    same(GET_OFFSET_SHELL, f"{AT} --topic offsets --time latest-tiered")
    same(GET_OFFSET_SHELL, f"{AT} --topic-partitions offsets:0,offsets:7")
    same(GET_OFFSET_SHELL, f"{AT} --topic no-such-topic", fails=True)
    wanted = tmp_path / "wanted.json"
    for offset in (2, 9):
        partition = {"topic": "offsets", "partition": 0, "offset": offset}
        wanted.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        same(DELETE_RECORDS_COMMAND, f"{AT} --offset-json-file {wanted}")
    assert "offsets:0:2" in same(GET_OFFSET_SHELL, f"{AT} --topic offsets --time earliest")


def test_leader_election(same: Comparison, make_topic: MakeTopic, tmp_path: Path) -> None:
    make_topic("led", partitions=2)
    for kind in ("preferred", "unclean"):
        elect = f"{AT} --election-type {kind}"
        assert "already elected" in same(LEADER_ELECTION_COMMAND, f"{elect} --topic led --partition 0")
        same(LEADER_ELECTION_COMMAND, f"{elect} --all-topic-partitions")
    wanted = tmp_path / "wanted.json"
    partitions = [{"topic": "led", "partition": partition} for partition in range(2)]
    wanted.write_text(json.dumps({"partitions": partitions}))
    same(LEADER_ELECTION_COMMAND, f"{AT} --election-type preferred --path-to-json-file {wanted}")
    for missing in ("--topic led --partition 7", "--topic no-such-topic --partition 0"):
        same(LEADER_ELECTION_COMMAND, f"{AT} --election-type preferred {missing}", fails=True)


def test_reassignments(same: Comparison, make_topic: MakeTopic, tmp_path: Path) -> None:
    make_topic("moved", partitions=2)

    def file_of(content: object) -> Path:
        path = tmp_path / "wanted.json"
        path.write_text(json.dumps(content))
        return path

    def to(*replicas: int) -> Path:
        moved = [{"topic": "moved", "partition": index, "replicas": [*replicas]} for index in range(2)]
        return file_of({"version": 1, "partitions": moved})

    topics = file_of({"version": 1, "topics": [{"topic": "moved"}]})
    assert "DATA" in same(
        REASSIGN_COMMAND, f"{AT} --generate --topics-to-move-json-file {topics} --broker-list 1"
    )
    assert "No partition reassignments" in same(REASSIGN_COMMAND, f"{AT} --list")
    here = f"--reassignment-json-file {to(1)}"
    assert "Successfully started" in same(REASSIGN_COMMAND, f"{AT} --execute {here}")
    assert "is completed" in same(REASSIGN_COMMAND, f"{AT} --verify {here}")
    same(REASSIGN_COMMAND, f"{AT} --cancel {here}")
    same(REASSIGN_COMMAND, f"{AT} --execute {here} --throttle 1000000")
    throttled = same(CONFIG_COMMAND, f"{AT} --describe --entity-type brokers --entity-name 1")
    assert "leader.replication.throttled.rate=1000000" in throttled
    same(REASSIGN_COMMAND, f"{AT} --verify {here}")
    cleared = same(CONFIG_COMMAND, f"{AT} --describe --entity-type brokers --entity-name 1")
    assert "throttled" not in cleared
    same(REASSIGN_COMMAND, f"{AT} --execute --reassignment-json-file {to(2)}", fails=True)


def test_log_folders(
    same: Comparison, jvm: OneJvm, brokers: dict[str, BrokerUnderTest], make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic("stored", "a", "b", partitions=1)
    assert "DATA" in same(LOG_DIRS_COMMAND, f"{AT} --describe --topic-list stored")
    same(LOG_DIRS_COMMAND, f"{AT} --describe --topic-list no-such-topic")
    same(LOG_DIRS_COMMAND, f"{AT} --describe --broker-list 7", fails=True)
    wanted = tmp_path / "wanted.json"
    for kind, broker in brokers.items():
        for folder, is_possible in ((broker.data_dir, True), (tmp_path / "other", False)):
            moved = {"topic": "stored", "partition": 0, "replicas": [1], "log_dirs": [str(folder)]}
            wanted.write_text(json.dumps({"version": 1, "partitions": [moved]}))
            address = ("--bootstrap-server", broker.bootstrap)
            command = ("--execute", "--reassignment-json-file", str(wanted))
            printed = jvm.run(REASSIGN_COMMAND, *address, *command)
            assert (printed.exit_code == 0) == is_possible, (kind, printed)
            assert ("LogDirNotFoundException" in printed.stdout + printed.stderr) != is_possible


def test_segments_are_dumped_alike(
    jvm: OneJvm, brokers: dict[str, BrokerUnderTest], make_topic: MakeTopic
) -> None:
    make_topic("dumped", "a", "b", "c")

    def dumped(broker: BrokerUnderTest) -> str:
        segment = broker.data_dir / "dumped-0" / f"{0:020}.log"
        printed = jvm.run(DUMP_LOG_SEGMENTS, "--files", str(segment), "--print-data-log").stdout
        printed = printed.replace(str(broker.data_dir), "DATA")
        # Each broker got records of its own, at another time.
        return re.sub(r"((?:CreateTime|producerId|crc): )\d+", r"\1N", printed)

    assert dumped(brokers["headrace"]) == dumped(brokers["kafka"])
    assert "payload: c" in dumped(brokers["headrace"])


# Configs and quotas


def test_configs_of_topics_and_brokers(same: Comparison, make_topic: MakeTopic) -> None:
    make_topic("configured")
    of_topic = "--entity-type topics --entity-name configured"
    same(
        CONFIG_COMMAND,
        f"{AT} --alter {of_topic} --add-config retention.ms=1000,cleanup.policy=[compact,delete]",
    )
    assert "retention.ms=1000" in same(CONFIG_COMMAND, f"{AT} --describe {of_topic}")
    same(CONFIG_COMMAND, f"{AT} --alter {of_topic} --delete-config retention.ms")
    same(CONFIG_COMMAND, f"{AT} --describe {of_topic}")
    same(CONFIG_COMMAND, f"{AT} --alter {of_topic} --delete-config segment.ms")
    for wrong in ("no.such.config=1", "retention.ms=soon", "min.cleanable.dirty.ratio=2"):
        same(CONFIG_COMMAND, f"{AT} --alter {of_topic} --add-config {wrong}", fails=True)
    same(
        CONFIG_COMMAND,
        f"{AT} --alter --entity-type topics --entity-name no-such-topic --add-config retention.ms=1",
        fails=True,
    )

    assert "min.insync.replicas=1" in same(
        CONFIG_COMMAND, f"{AT} --describe --entity-type brokers --entity-default"
    )
    same(CONFIG_COMMAND, f"{AT} --describe --entity-type brokers")
    same(
        CONFIG_COMMAND,
        f"{AT} --alter --entity-type brokers --entity-name 1 --add-config node.id=2",
        fails=True,
    )


def test_configs_of_groups_and_client_metrics(same: Comparison) -> None:
    of_group = "--entity-type groups --entity-name configured-group"
    same(CONFIG_COMMAND, f"{AT} --describe {of_group}")
    same(CONFIG_COMMAND, f"{AT} --alter {of_group} --add-config consumer.session.timeout.ms=50000")
    assert "=50000" in same(CONFIG_COMMAND, f"{AT} --describe {of_group}")
    same(CONFIG_COMMAND, f"{AT} --alter {of_group} --add-config no.such.config=1", fails=True)
    same(CONFIG_COMMAND, f"{AT} --alter {of_group} --delete-config consumer.session.timeout.ms")

    of_metrics = "--entity-type client-metrics --entity-name subscribed"
    same(CONFIG_COMMAND, f"{AT} --alter {of_metrics} --add-config interval.ms=2000,metrics=org.apache.kafka.")
    assert "interval.ms=2000" in same(CONFIG_COMMAND, f"{AT} --describe {of_metrics}")
    same(CONFIG_COMMAND, f"{AT} --describe {of_metrics} --all")
    same(CONFIG_COMMAND, f"{AT} --describe --entity-type client-metrics")
    same(CONFIG_COMMAND, f"{AT} --alter {of_metrics} --add-config colour=red", fails=True)
    same(CONFIG_COMMAND, f"{AT} --alter {of_metrics} --delete-config interval.ms,metrics")
    same(CONFIG_COMMAND, f"{AT} --describe {of_metrics}")


def test_client_metrics(same: Comparison) -> None:
    alter = f"{AT} --alter --name watched"
    same(CLIENT_METRICS_COMMAND, f"{alter} --metrics org.apache.kafka. --interval 5000 --match client_id=a.*")
    assert "interval.ms=5000" in same(CLIENT_METRICS_COMMAND, f"{AT} --describe --name watched")
    same(CLIENT_METRICS_COMMAND, f"{AT} --describe")
    same(CLIENT_METRICS_COMMAND, f"{AT} --describe --name no-such-subscription")
    assert "watched" in same(CLIENT_METRICS_COMMAND, f"{AT} --list")
    for wrong in ("--interval 5", "--match colour=red"):
        same(CLIENT_METRICS_COMMAND, f"{alter} {wrong}", fails=True)
    same(CLIENT_METRICS_COMMAND, f"{AT} --delete --name watched")
    same(CLIENT_METRICS_COMMAND, f"{AT} --delete --name no-such-subscription")
    assert "watched" not in same(CLIENT_METRICS_COMMAND, f"{AT} --list")


def test_quotas(same: Comparison) -> None:
    ann, app = "--entity-type users --entity-name ann", "--entity-type clients --entity-name app"
    address, everybody = "--entity-type ips --entity-name 192.0.2.1", "--entity-type users --entity-default"
    same(CONFIG_COMMAND, f"{AT} --alter {ann} --add-config producer_byte_rate=1024,request_percentage=50")
    same(CONFIG_COMMAND, f"{AT} --alter {app} --add-config consumer_byte_rate=2048")
    same(CONFIG_COMMAND, f"{AT} --alter {ann} {app} --add-config consumer_byte_rate=4096")
    same(CONFIG_COMMAND, f"{AT} --alter {everybody} --add-config controller_mutation_rate=10")
    same(CONFIG_COMMAND, f"{AT} --alter {address} --add-config connection_creation_rate=100")
    for wrong in ("producer_byte_rate=-1", "producer_byte_rate=1.5", "no_such_quota=1"):
        same(CONFIG_COMMAND, f"{AT} --alter {app} --add-config {wrong}", fails=True)
    for asked in (ann, app, f"{ann} {app}", everybody, address):
        assert "Quota configs" in same(CONFIG_COMMAND, f"{AT} --describe {asked}")
    for kinds in ("users", "clients", "ips", "users --entity-type clients"):
        same(CONFIG_COMMAND, f"{AT} --describe --entity-type {kinds}")
    same(CONFIG_COMMAND, f"{AT} --alter {ann} --delete-config producer_byte_rate")
    assert "producer_byte_rate" not in same(CONFIG_COMMAND, f"{AT} --describe {ann}")


# Groups


@pytest.mark.slow
def test_consumer_groups(same: Comparison, make_topic: MakeTopic) -> None:
    make_topic("grouped", "a", "b", "c", "d")
    consume = f"{AT} --topic grouped --group readers --from-beginning --timeout-ms 20000"
    assert same(CONSOLE_CONSUMER, f"{consume} --max-messages 3").splitlines() == ["a", "b", "c"]
    describe = f"{AT} --describe --group readers"
    assert "readers grouped 0 3 4 1" in same(CONSUMER_GROUP_COMMAND, describe)
    for view in ("--offsets --verbose", "--members --verbose", "--state"):
        same(CONSUMER_GROUP_COMMAND, f"{describe} {view}")
    for listing in ("", "--state", "--type", "--state Empty", "--type consumer"):
        same(CONSUMER_GROUP_COMMAND, f"{AT} --list {listing}")
    reset = f"{AT} --reset-offsets --group readers --topic grouped"
    for to in (
        "to-latest",
        "to-offset 100",
        "shift-by -1",
        "by-duration PT1H",
        "to-datetime 2020-01-01T00:00:00.000",
    ):
        same(CONSUMER_GROUP_COMMAND, f"{reset} --{to} --dry-run")
    same(CONSUMER_GROUP_COMMAND, f"{reset} --to-earliest --execute")
    assert "readers grouped 0 0 4 4" in same(CONSUMER_GROUP_COMMAND, describe)
    same(
        CONSUMER_GROUP_COMMAND,
        f"{AT} --reset-offsets --group readers --all-topics --to-latest --execute --export",
    )
    same(CONSUMER_GROUP_COMMAND, f"{AT} --delete-offsets --group readers --topic grouped")
    same(CONSUMER_GROUP_COMMAND, f"{AT} --delete --group readers")
    same(CONSUMER_GROUP_COMMAND, f"{AT} --delete --group readers")
    same(CONSUMER_GROUP_COMMAND, describe)
    same(CONSUMER_GROUP_COMMAND, f"{AT} --validate-regex group.*")


@pytest.mark.slow
def test_groups_of_all_kinds_are_listed(same: Comparison, make_topic: MakeTopic) -> None:
    make_topic("listed", "a")
    for group, protocol in (("old", "classic"), ("new", "consumer")):
        consume = f"{AT} --topic listed --group {group} --from-beginning --max-messages 1 --timeout-ms 20000"
        same(CONSOLE_CONSUMER, f"{consume} --consumer-property group.protocol={protocol}")
    assert {"new Consumer consumer", "old Classic consumer"} <= {
        *same(GROUPS_COMMAND, f"{AT} --list").splitlines()
    }
    for chosen in ("--consumer", "--share", "--streams", "--group-type classic", "--protocol none"):
        same(GROUPS_COMMAND, f"{AT} --list {chosen}")
    for group in ("old", "new"):
        same(CONSUMER_GROUP_COMMAND, f"{AT} --delete --group {group}")


@pytest.mark.slow
def test_streams_groups(same: Comparison, make_topic: MakeTopic) -> None:
    make_topic("streamed", "a")
    same(STREAMS_GROUP_COMMAND, f"{AT} --list")
    same(STREAMS_GROUP_COMMAND, f"{AT} --describe --all-groups")
    same(STREAMS_GROUP_COMMAND, f"{AT} --delete --group no-such-group")
    same(STREAMS_RESETTER, f"{AT} --application-id no-such-application --input-topics streamed --dry-run")


@pytest.mark.slow
def test_share_groups(same: Comparison, make_topic: MakeTopic) -> None:
    make_topic("shared", "a", "b", "c", "d")
    of_group = "--entity-type groups --entity-name workers"
    same(CONFIG_COMMAND, f"{AT} --alter {of_group} --add-config share.auto.offset.reset=earliest")
    same(CONFIG_COMMAND, f"{AT} --describe {of_group}")
    worked = same(
        CONSOLE_SHARE_CONSUMER, f"{AT} --topic shared --group workers --max-messages 3 --timeout-ms 20000"
    )
    assert worked.splitlines() == ["a", "b", "c"]
    describe = f"{AT} --describe --group workers"
    assert "workers shared 0 3 1" in same(SHARE_GROUP_COMMAND, describe)
    for view in ("--verbose", "--members", "--members --verbose", "--state"):
        same(SHARE_GROUP_COMMAND, f"{describe} {view}")
    for listing in ("", "--state"):
        assert "workers" in same(SHARE_GROUP_COMMAND, f"{AT} --list {listing}")
    reset = f"{AT} --reset-offsets --group workers"
    same(SHARE_GROUP_COMMAND, f"{reset} --topic shared --to-earliest --dry-run")
    same(SHARE_GROUP_COMMAND, f"{reset} --topic shared --to-earliest --execute")
    same(SHARE_GROUP_COMMAND, describe)
    same(SHARE_GROUP_COMMAND, f"{reset} --all-topics --to-latest --execute")
    same(SHARE_GROUP_COMMAND, f"{AT} --delete-offsets --group workers --topic shared")
    same(SHARE_GROUP_COMMAND, f"{AT} --delete-offsets --group workers --topic no-such-topic")
    same(SHARE_GROUP_COMMAND, f"{AT} --delete --group workers")
    same(SHARE_GROUP_COMMAND, f"{AT} --delete --group workers")
    same(SHARE_GROUP_COMMAND, describe)


def test_transactions(same: Comparison, make_topic: MakeTopic) -> None:
    make_topic("transacted")
    perf = f"{AT} --topic transacted --num-records 5 --record-size 10 --throughput -1"
    same_shape(same, PRODUCER_PERFORMANCE, f"{perf} --transactional-id writer --transaction-duration-ms 1000")
    assert "writer 1" in same(TRANSACTIONS_COMMAND, f"{AT} list")
    same(TRANSACTIONS_COMMAND, f"{AT} list --duration-filter 100000")
    same_shape(same, TRANSACTIONS_COMMAND, f"{AT} describe --transactional-id writer")
    same(TRANSACTIONS_COMMAND, f"{AT} describe --transactional-id no-such-id", fails=True)
    same(TRANSACTIONS_COMMAND, f"{AT} describe-producers --topic transacted --partition 0")
    same(TRANSACTIONS_COMMAND, f"{AT} find-hanging --broker-id 1")
    same(TRANSACTIONS_COMMAND, f"{AT} abort --topic transacted --partition 0 --start-offset 0", fails=True)
    same(TRANSACTIONS_COMMAND, f"{AT} forceTerminateTransaction --transactionalId writer")


# Programs that measure and verify: what they print is numbers


def same_shape(same: Comparison, main_class: str, command_line: str) -> None:
    """Both end well, and print the same but for measured numbers."""
    printed = same.each(main_class, command_line)
    shapes = {kind: re.sub(r"\d[\d.,]*", "N", text) for kind, text in printed.items()}
    assert shapes["headrace"] == shapes["kafka"], printed


@pytest.mark.slow
def test_performance_is_measured(same: Comparison, make_topic: MakeTopic) -> None:
    make_topic("measured")
    same_shape(
        same,
        PRODUCER_PERFORMANCE,
        f"{AT} --topic measured --num-records 2000 --record-size 100 --throughput -1",
    )
    same_shape(same, CONSUMER_PERFORMANCE, f"{AT} --topic measured --num-records 2000 --group measuring")
    of_group = "--entity-type groups --entity-name measuring-shares"
    same(CONFIG_COMMAND, f"{AT} --alter {of_group} --add-config share.auto.offset.reset=earliest")
    shares = f"{AT} --topic measured --num-records 2000 --group measuring-shares --timeout 60000"
    same_shape(same, SHARE_CONSUMER_PERFORMANCE, shares)
    same_shape(
        same, END_TO_END_LATENCY, f"{AT} --topic measured --num-records 50 --producer-acks 1 --record-size 20"
    )


@pytest.mark.slow
def test_verifiable_clients(same: Comparison, make_topic: MakeTopic) -> None:
    make_topic("verified", *map(str, range(50)))
    verify = f"{AT} --topic verified --max-messages 50"
    same_shape(same, VERIFIABLE_CONSUMER, f"{verify} --group-id verifiers --reset-policy earliest")
    of_group = "--entity-type groups --entity-name verifying-shares"
    same(CONFIG_COMMAND, f"{AT} --alter {of_group} --add-config share.auto.offset.reset=earliest")
    same_shape(same, VERIFIABLE_SHARE_CONSUMER, f"{verify} --group-id verifying-shares")
    # Its acknowledgements are printed by another thread, which outlives the call.
    assert "startup_complete" in str(
        same.each(VERIFIABLE_PRODUCER, f"{AT} --topic verified --max-messages 50")
    )
