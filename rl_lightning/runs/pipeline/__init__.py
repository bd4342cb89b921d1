"""Stages in order, perhaps in cycles: what runs, what is done, what it left."""
