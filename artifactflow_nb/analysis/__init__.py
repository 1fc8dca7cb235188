"""DataFrames, plots and comparisons of runs, read from stored rows."""
