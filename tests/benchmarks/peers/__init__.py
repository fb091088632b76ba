"""Other people's caches on the same model and text; see __main__."""
