"""Networks of a shape of their own."""
