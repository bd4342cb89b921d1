"""Values of a policy from what another one did."""
