"""Pure functions: arrays in, arrays out. Nothing is imported here, so that `scores` loads without torch."""
