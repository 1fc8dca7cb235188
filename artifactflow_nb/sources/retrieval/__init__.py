"""Terms, sentences and scores: how well a passage answers a question."""
