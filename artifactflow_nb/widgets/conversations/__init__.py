"""The conversation panel: a tree of branches to read, compare and continue."""
