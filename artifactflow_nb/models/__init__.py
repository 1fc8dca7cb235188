"""Language models: the protocol, OpenAI-compatible endpoints, and models for tests, replay and offline use."""
