"""Densities of experience, each with a score in nats."""

from rl_lightning.models.density.calibrated import CalibratedDensity
from rl_lightning.models.density.density_model import DensityFactory, DensityModel
from rl_lightning.models.density.diffusion_density import DiffusionDensity
from rl_lightning.models.density.kde import KDE
from rl_lightning.models.density.ode_flow import ODEFlow
from rl_lightning.models.density.realnvp import RealNVP
from rl_lightning.models.density.vae_density import VAEDensity

__all__ = [
    "KDE",
    "CalibratedDensity",
    "DensityFactory",
    "DensityModel",
    "DiffusionDensity",
    "ODEFlow",
    "RealNVP",
    "VAEDensity",
]
