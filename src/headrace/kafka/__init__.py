"""One Kafka client layer for commands, queues and jobs: any Kafka cluster, over the wire only.

    settings      the [client] settings, addresses, and the configuration of every producer, consumer and admin client
    cluster       topics, partitions, offsets, groups and configs of a cluster
    errors        the error of a request, and the hint for it
    retries       transient errors, and retrying
    position      a position in several partitions, as one value
    connection    requests that confluent-kafka has no call for; on_disk and share_groups use them

confluent-kafka is imported by `cluster` and `retries` only.
"""
