"""The window and its panels. Nothing here imports mlx."""
