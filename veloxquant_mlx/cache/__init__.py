"""The catalogue of methods: every ``NAME_cache.py`` here declares one, nothing else lists it."""
