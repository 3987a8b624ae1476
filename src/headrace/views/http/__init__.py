"""Views over HTTP: rows, search, and followers by server-sent events.

answers    the JSON of responses and errors
pool       readers that requests share
events     server-sent events to a follower
bounds     what is rejected before any route
app        the routes
server     the process
"""
