"""Tables and policies in formats of others."""
