"""The artifact panel: versions, differences, manual edits."""
