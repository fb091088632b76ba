"""The studio: a window that shows what a KV-cache setting does to memory and to answers."""
