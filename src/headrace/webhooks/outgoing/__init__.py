"""Webhooks out: records of a topic or messages of a queue as signed requests to other systems.

addresses, urls, dialling    where a request may go, checked on the address that is dialled
signing, message, sender     what a request has, and one attempt to send it
outcomes, back_off, health   what an answer means, when the next attempt is, and when a target is paused
lanes, progress              which record is next, and which offsets are committed
topic_source, delivery       a target of a topic; queue_delivery: a target of a queue
letters, attempts, state     dead letters, the history of attempts, and files that other commands read
runner                       all targets of a data folder
"""
