"""VeloxQuant Studio: the desktop app over ``veloxquant_mlx``."""
