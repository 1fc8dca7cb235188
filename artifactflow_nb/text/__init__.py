"""What texts are made of: words, blocks, sentences, and how well one answers a question."""
