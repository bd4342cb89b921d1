"""Recurrent state-space models: encoder, latents, heads, actors."""
