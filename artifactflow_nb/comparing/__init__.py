"""Two runs side by side: their answers, their artifacts, their steps and what they cost."""
