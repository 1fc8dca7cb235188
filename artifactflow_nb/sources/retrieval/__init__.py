"""Terms, sentences, and scores of passages as answers to a question."""
