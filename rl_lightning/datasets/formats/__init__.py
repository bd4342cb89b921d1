"""Files on disk as arrays: each format read safely, none of them by unpickling."""
