"""Terms, sentences and scores that rate how well a passage answers a question."""
