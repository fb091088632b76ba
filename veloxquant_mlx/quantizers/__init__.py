"""Pure array functions: what a row becomes and how it comes back."""
