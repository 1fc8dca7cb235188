"""The home of a workbench: view, nodes, model connection."""
