"""Behaviour and guidance trained on tensors, without files and envs: bandits whose answers are known."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from rl_lightning.algorithms import BehaviorDiffusion, DiceGuidance
from rl_lightning.functional.diffusion_solvers import solve
from rl_lightning.types import EnvSpec, Transitions

SPEC = EnvSpec("bandit", (1,), action_shape=(2,))


def rows(action: torch.Tensor, reward: torch.Tensor) -> Transitions:
    """A bandit: one step, always the same observation."""
    obs, ones = torch.zeros(len(action), 1), torch.ones(len(action))
    return Transitions(obs, action, reward, obs, ones, 0.99 * ones, ones, torch.arange(len(action)))


def choose(data: Transitions, batch: int) -> Transitions:
    index = torch.randint(len(data.reward), (batch,))
    return Transitions(*(None if column is None else column[index] for column in data))


def train(model: Any, data: Transitions, updates: int, batch: int = 256) -> Any:
    """Updates as the Trainer makes them; the rate follows its schedule."""
    for update in range(updates):
        model.clock.progress = update / updates
        model.update(choose(data, batch))
    return model.eval()


def artifact(model: BehaviorDiffusion, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(model.state_dict(), folder / "weights.safetensors")
    provides = {name: part._asdict() for name, part in model.exports().items()}
    (folder / "artifact.json").write_text(json.dumps({"exports": provides}))
    return str(folder)


def draw(model: DiceGuidance, count: int, scale: float, seed: int = 0) -> torch.Tensor:
    """Guided samples of one observation, as `act` draws them."""
    model.guidance_scale, model.num_samples = scale, count
    model.setup("test")
    with torch.inference_mode():
        return model.draw_candidates(torch.zeros(1, 1), torch.Generator().manual_seed(seed))[0]


class ExactNormal(torch.nn.Module):
    """The behaviour N(0, I), whose noise is known."""

    def __init__(self, schedule: Any) -> None:
        super().__init__()
        self.noise_schedule = schedule
        self.init_args = {"obs_dim": 1, "action_dim": 2}

    def sample(self, obs, count, moves, generator, clip=None, lean=None):  # type: ignore[no-untyped-def]
        def eps(x: torch.Tensor, time: float) -> torch.Tensor:
            return x * float(self.noise_schedule.alpha_sigma(torch.tensor(time, dtype=torch.float64))[1])

        start = torch.randn(len(obs), count, 2, generator=generator)
        return solve(lean(eps), start, moves, clip)


def given_behavior(model: DiceGuidance, behavior: Any) -> DiceGuidance:
    model.__dict__["behavior"] = behavior
    return model
