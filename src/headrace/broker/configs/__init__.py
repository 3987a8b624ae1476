"""Configs of topics, groups, brokers and subscriptions to client metrics, and quotas of clients."""
