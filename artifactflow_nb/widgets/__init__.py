"""What the reader sees and clicks: views of runs, and the static face that each leaves in the saved notebook."""
