"""HTTP in front of a broker, Headrace's or Apache Kafka: for programs that do not speak the Kafka protocol.

registry  schemas of records, with the API of Confluent's registry
"""
