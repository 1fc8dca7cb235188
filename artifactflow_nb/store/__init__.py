"""What outlives the kernel: one SQLite file."""
