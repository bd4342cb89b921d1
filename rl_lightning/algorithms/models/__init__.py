"""Models of a data set: dynamics and density."""
