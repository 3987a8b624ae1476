"""Selections as text, as SQL of a database, and evaluated in Python.

literals  values of programs in conditions
text      "WHERE city = 'Oslo'" as a Selection
kinds    what a column holds, from its declared type
sql      a Selection as SQL of SQLite, PostgreSQL and DuckDB
rows     a Selection of rows in memory
paging   the page after a row, and its token
"""
