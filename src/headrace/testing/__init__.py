"""The public test kit: real brokers and real clients for the tests of Headrace and of other projects."""
