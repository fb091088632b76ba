"""The memory report of a conversation: its schema, and what it looks like as HTML, Markdown and a table."""
