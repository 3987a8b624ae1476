"""Opening a partition after any end of its process, and repairing a damaged one."""
