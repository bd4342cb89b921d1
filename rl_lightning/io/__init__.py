"""Reading and writing: whole files, locks, expressions, whose code may be named."""
