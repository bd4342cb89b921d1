"""Evolving small controllers: CMA-ES, and the episodes that rate them."""
