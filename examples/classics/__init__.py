"""The classic examples of stream processing, a script each: `python -m examples.classics.page_views`."""
