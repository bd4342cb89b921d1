"""Networks that find the noise in a row or a sequence."""
