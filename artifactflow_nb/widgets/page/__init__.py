"""The widget base: node tree, page stream, HTML elements, scripts and styles, polling."""
