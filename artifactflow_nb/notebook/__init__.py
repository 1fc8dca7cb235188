"""The interface for cells: Workbench, Run, handles of artifacts and projects, magics."""
