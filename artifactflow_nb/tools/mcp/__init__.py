"""Tools of MCP servers: configuration, sessions, offers to agents, and results of calls."""
