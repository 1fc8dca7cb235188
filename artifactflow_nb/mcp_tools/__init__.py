"""Tools of MCP servers: what servers offer as tools, the sessions in which they are called, what comes of a call."""
