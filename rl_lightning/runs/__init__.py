"""The engine: a config composed and built, a run trained, resumed and recorded. The command line calls it."""
