"""The user interface in the notebook: views of runs, and the saved output of each view."""
