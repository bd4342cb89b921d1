"""Runs as a user sees them: folders, names, catalogues, curves and health. No torch at load."""
