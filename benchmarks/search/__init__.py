"""Search on streams, compared with a loop over all queries and with Lucene's monitor."""
