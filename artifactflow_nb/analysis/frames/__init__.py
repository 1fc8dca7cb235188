"""DataFrames of stored rows, one per level of detail, and SQL over them; pandas is imported when a frame is loaded."""
