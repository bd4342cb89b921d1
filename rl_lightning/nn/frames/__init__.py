"""Parts of the next-frame network."""
