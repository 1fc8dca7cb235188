"""What a person holds in a cell: Workbench, Run, handles of artifacts and projects, magics."""
