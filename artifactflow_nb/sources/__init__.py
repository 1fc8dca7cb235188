"""Local documents: reading, indexing, search and citation."""
