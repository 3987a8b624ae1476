"""Webhooks in: a URL for each source, whose signed requests become events.

source       the definition: kind, topic, secrets, limits
request      a request as its bytes arrived
signatures   whether a request is from its sender: one module for each kind, no I/O
event_of     the event of a verified request, or why there is none
recent       the ids that were accepted, bounded in time and number
history      these ids after a restart: read from the topic
limiter      a rate for each source
reception    requests to answers: what a server calls
counters     what became of requests, for metrics
sample       signed requests for tests
"""
