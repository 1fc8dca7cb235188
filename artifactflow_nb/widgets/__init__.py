"""What the reader sees and clicks: views of runs, and the saved output of each view in the notebook."""
