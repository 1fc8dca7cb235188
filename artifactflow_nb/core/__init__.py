"""Values, protocols and pure functions; no I/O."""
