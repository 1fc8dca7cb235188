"""Export to files: artifacts, conversations, projects, reports, and executed notebooks with their HTML."""
