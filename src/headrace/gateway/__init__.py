"""Topics over HTTP: writing, reading, streams and queues. It reaches the broker over the wire only, whoever made it.

settings            the [gateway] table
app                 the application: parts and routes;  server: the process;  stopping: its end
connections         how many, and how long they wait for a request;  request_rates: how many requests
produce_routes      formats, cloud_events: from bodies to records;  bodies: their bounds;  publisher: to the broker
read_routes         starts: where to begin;  log_reader: from any position
stream_routes       server_sent_events, web_sockets: how a stream is sent;  stream: its events;  event_ids: their ids
subscription        one reader: from the log until it meets the feed, then from the feed
feed, feeds, tail   the newest records of each topic, read once for all streams
topic_routes        topics: what is known of the cluster
queues              messages that are locked for clients, by receipts
registry            schemas of records, with the API of Confluent's registry
answers, errors     the JSON of responses;  records: of records;  slots: how many at a time
"""
