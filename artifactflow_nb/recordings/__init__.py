"""What makes a run repeatable: everything that came from outside, as it came."""
