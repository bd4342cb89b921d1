"""Where metrics, media and alerts go."""
