"""Latent models that TD-MPC and TD-MPC2 plan with."""
