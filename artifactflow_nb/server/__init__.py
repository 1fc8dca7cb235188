"""The runs of a data folder over HTTP: one lifecycle, and thin adapters for Starlette and for Jupyter Server."""
