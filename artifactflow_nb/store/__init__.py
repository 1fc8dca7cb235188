"""Storage in one SQLite file: the schema, and access to its rows."""
