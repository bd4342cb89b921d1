"""Runs as a user sees them: folders, names, catalogues, curves and health. Nothing here imports torch at load."""
