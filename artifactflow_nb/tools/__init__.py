"""Tools of agents: the decorator, the registry, artifacts, delegation, web and MCP."""
