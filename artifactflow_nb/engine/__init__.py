"""Opens, starts, drives, resumes and ends runs; the only room that wires the rooms below."""
