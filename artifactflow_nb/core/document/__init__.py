"""A document of blocks: tree, edits, dependencies, templates, rubrics."""
