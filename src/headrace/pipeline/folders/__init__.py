"""Folders of small files on this machine, in HDFS or in an object store, with the same operations."""
