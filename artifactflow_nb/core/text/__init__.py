"""Text utilities: Markdown, diffs, display cards, number formats, YAML and Chinese word boundaries."""
