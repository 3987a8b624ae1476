"""Running Kafka's own Java programs: their names, and a function that runs them and requires success."""

from __future__ import annotations

import json
from typing import Any

from headrace.testing.java import JavaTools

TIMEOUT_S = 60
"""A tool takes one to three seconds on an idle machine."""

_TOOLS = "org.apache.kafka.tools"
API_VERSIONS_COMMAND = f"{_TOOLS}.BrokerApiVersionsCommand"
CLIENT_METRICS_COMMAND = f"{_TOOLS}.ClientMetricsCommand"
CLUSTER_TOOL = f"{_TOOLS}.ClusterTool"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"
CONSOLE_CONSUMER = f"{_TOOLS}.consumer.ConsoleConsumer"
CONSOLE_PRODUCER = f"{_TOOLS}.ConsoleProducer"
CONSOLE_SHARE_CONSUMER = f"{_TOOLS}.consumer.ConsoleShareConsumer"
CONSUMER_GROUP_COMMAND = f"{_TOOLS}.consumer.group.ConsumerGroupCommand"
CONSUMER_PERFORMANCE = f"{_TOOLS}.ConsumerPerformance"
DELETE_RECORDS_COMMAND = f"{_TOOLS}.DeleteRecordsCommand"
DUMP_LOG_SEGMENTS = f"{_TOOLS}.DumpLogSegments"
END_TO_END_LATENCY = f"{_TOOLS}.EndToEndLatency"
FEATURE_COMMAND = f"{_TOOLS}.FeatureCommand"
GET_OFFSET_SHELL = f"{_TOOLS}.GetOffsetShell"
GROUPS_COMMAND = f"{_TOOLS}.GroupsCommand"
LEADER_ELECTION_COMMAND = f"{_TOOLS}.LeaderElectionCommand"
LOG_COMPACTION_TESTER = f"{_TOOLS}.LogCompactionTester"
LOG_DIRS_COMMAND = f"{_TOOLS}.LogDirsCommand"
METADATA_QUORUM_COMMAND = f"{_TOOLS}.MetadataQuorumCommand"
PRODUCER_PERFORMANCE = f"{_TOOLS}.ProducerPerformance"
REASSIGN_COMMAND = f"{_TOOLS}.reassign.ReassignPartitionsCommand"
SHARE_CONSUMER_PERFORMANCE = f"{_TOOLS}.ShareConsumerPerformance"
SHARE_GROUP_COMMAND = f"{_TOOLS}.consumer.group.ShareGroupCommand"
STREAMS_GROUP_COMMAND = f"{_TOOLS}.streams.StreamsGroupCommand"
STREAMS_RESETTER = f"{_TOOLS}.StreamsResetter"
TOPIC_COMMAND = f"{_TOOLS}.TopicCommand"
TRANSACTIONAL_MESSAGE_COPIER = f"{_TOOLS}.TransactionalMessageCopier"
TRANSACTIONS_COMMAND = f"{_TOOLS}.TransactionsCommand"
VERIFIABLE_CONSUMER = f"{_TOOLS}.VerifiableConsumer"
VERIFIABLE_PRODUCER = f"{_TOOLS}.VerifiableProducer"
VERIFIABLE_SHARE_CONSUMER = f"{_TOOLS}.VerifiableShareConsumer"


def run(tools: JavaTools, main_class: str, *arguments: str, input: str | None = None) -> str:
    """The output of the program, which must succeed."""
    done = tools.run(main_class, *arguments, timeout_s=TIMEOUT_S, input=input)
    assert done.returncode == 0, f"{main_class} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def events(output: str) -> list[dict[str, Any]]:
    """The verifiable programs print a JSON object a line."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]
