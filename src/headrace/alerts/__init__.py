"""Alerts: people at the end of a stream.

key_state, notifying, grouped   the pure core: what records, time and silences change, and what a message reports
engine                          one alert in memory; desk: all of them, and their transactions
state_log, streams              the log: state, outbox and history, and the records that are judged
lanes, delivery, targets        messages on their way to people
catalog                         definitions, silences and requests in the data folder
runner                          the process
"""
