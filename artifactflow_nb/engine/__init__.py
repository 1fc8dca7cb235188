"""Opens, starts, drives, resumes and ends runs; the only room that wires those below."""
