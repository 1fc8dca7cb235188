"""The artifact panel: versions, differences, edits by hand."""
