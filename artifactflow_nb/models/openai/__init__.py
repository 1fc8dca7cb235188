"""Client for OpenAI-compatible endpoints: streaming, native tool calls, reasoning and errors."""
