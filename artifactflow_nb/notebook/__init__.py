"""What a person uses in cells: Workbench, Run, handles of artifacts and projects, magics."""
