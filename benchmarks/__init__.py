"""Measurements of Headrace beside its peers. Each subject runs the peer in the same run, on the same disk."""
