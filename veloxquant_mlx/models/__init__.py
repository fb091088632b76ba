"""Models on disk: finding, describing, importing and loading them."""
