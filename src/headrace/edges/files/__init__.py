"""Lines of log files, through rotation.

follower       the loop: finds files, reads them in turn, and hands their lines to the intake
discovery      files by pattern, and by inode after they were renamed
marks          what identifies a file and a position in it
copies         files that are copies of a file that was followed (copytruncate)
followed_file  one file: what was read, and what of it is acknowledged
descriptors    a bounded number of open files
lines          lines out of pieces; `multiline` joins them to events; `parsing` turns them into JSON
positions      the positions on disk
"""
