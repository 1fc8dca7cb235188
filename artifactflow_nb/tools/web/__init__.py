"""Web search and web fetch, and the guard that restricts requests to public addresses."""
