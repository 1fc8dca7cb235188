"""Storage in one SQLite file: schema and rows, without decisions."""
