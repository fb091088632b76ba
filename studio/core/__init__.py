"""What the studio knows without a screen. Nothing here imports Qt."""
