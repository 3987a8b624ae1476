"""A StatsD listener: metrics from UDP and TCP, aggregated and written to a topic.

lines         one line as a metric, or the reason why it is none
series        the metrics of a window, aggregated
events        the JSON of a window
listener      the sockets, and the windows
"""
