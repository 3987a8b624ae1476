"""Row patterns: SQL:2016 MATCH_RECOGNIZE on streams and bounded rows, and the absence of rows.

syntax            the parts of a pattern as values
place             errors that point at a place in the text
parsing           from the text to its parts
binding           names resolved: variables, columns, functions
expressions       conditions and measures over whole columns, and over single values
automaton         a pattern as an automaton
matching          the matches in sorted rows of many keys
measures          the values of measures for all matches together
pattern_step      the step of a stream: rows that wait, matches that are complete
match_recognize   the operator
row_pattern       the same in Python
absence           rows that were not followed by others in time
"""
