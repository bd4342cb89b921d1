"""Verbs of the researcher's desk: runs listed, compared, drawn, exported and cleaned up."""
