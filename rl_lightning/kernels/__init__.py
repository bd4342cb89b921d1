"""Hand-written fast paths, each beside its plain torch twin."""
