"""Text protocol of tool calls: formatting, and lenient parsing of the dialects that models write."""
