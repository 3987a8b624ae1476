"""The command line: one file per command group, and the few things that they share.

Commands talk to a broker over the Kafka protocol (confluent-kafka) and therefore to Apache Kafka just as
well. The two exceptions are named in the import contracts: `headrace broker` starts a broker, `headrace log`
reads its files.
"""
