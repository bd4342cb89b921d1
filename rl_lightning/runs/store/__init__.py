"""Run folders: their records, index and metrics."""
