"""A learned model as an env: by its id, in a vector, and as what an evaluation acts in."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import rl_lightning.envs.model_env  # noqa: F401  (registers the id)
from rl_lightning.algorithms import Dynamics
from rl_lightning.datamodules import OfflineData
from rl_lightning.datasets.rows.holdout import split_rows
from rl_lightning.envs.make import EnvConfig, make_envs, probe_spec
from rl_lightning.envs.model_env.learned_env import ModelSettings, learned_env
from rl_lightning.envs.model_env.model_envs import ModelEnvs
from rl_lightning.errors import ConfigError
from rl_lightning.models.density import CalibratedDensity
from rl_lightning.models.dynamics.ensemble_dynamics import ModelStep
from rl_lightning.runs.pipeline.stage_artifact import write_artifact

EPISODES, LENGTH = 20, 12


def recorded(**changes: Any) -> dict[str, Any]:
    """Two signals that follow the action; their first observation tells which episode it is."""
    draw = np.random.default_rng(0)
    obs = draw.normal(size=(EPISODES * LENGTH, 2)).astype(np.float32)
    obs[::LENGTH, 0] = np.arange(EPISODES) + 100.0
    rows = EPISODES * LENGTH
    return {
        "observations": obs,
        "actions": draw.uniform(-1, 1, (rows, 1)).astype(np.float32),
        "rewards": np.ones(rows, np.float32),
        "next_observations": obs,
        "terminals": np.zeros(rows, bool),
        "timeouts": np.arange(1, rows + 1) % LENGTH == 0,
    } | changes


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set, and an untrained model of it, as stages leave them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RL_LOGS", str(tmp_path / "logs"))
    np.savez("rows.npz", **recorded())
    return leave(tmp_path / "logs" / "dynamics")


def leave(folder: Path, **of_data: Any) -> Path:
    torch.manual_seed(0)
    data = OfflineData("rows.npz")
    module = Dynamics(data.spec, ensemble_size=3, num_elites=2, hidden_dims=[8])
    module.best.fit_statistics(
        data.dataset.obs, data.dataset.action, data.dataset.reward, data.dataset.next_obs
    )
    exports = {name: exported._asdict() for name, exported in module.exports().items()}
    folder.mkdir(parents=True)
    torch.save({"state_dict": module.state_dict(), "exports": exports}, folder / "model.ckpt")
    settings = {"dataset": "rows.npz", "reward_scale": 1.0, **of_data}
    config = {"seed_everything": 3, "data": {"class_path": "OfflineData", "init_args": settings}}
    write_artifact(folder, folder / "model.ckpt", config, {})
    return folder


def density(made: Path) -> Path:
    folder, dim = made.parent / "density", {"obs_dim": 2, "action_dim": 1}
    model = CalibratedDensity({"class_path": "rl_lightning.models.density.KDE", "init_args": {}}, **dim)
    rows = torch.randn(200, 3)
    model.net.fit_statistics(rows)
    model.calibrate(rows)
    about = {"class_path": f"{CalibratedDensity.__module__}.{CalibratedDensity.__name__}", "prefix": "best."}
    about["init_args"] = {
        "density_model": {"class_path": "rl_lightning.models.density.KDE", "init_args": {}},
        **dim,
    }
    folder.mkdir()
    weights = {f"best.{name}": value for name, value in model.state_dict().items()}
    torch.save({"state_dict": weights, "exports": {"density": about}}, folder / "model.ckpt")
    write_artifact(folder, folder / "model.ckpt", {}, {})
    return folder


def test_starts_are_those_that_the_model_has_never_seen(made: Path) -> None:
    world = learned_env(ModelSettings("dynamics"))
    data = OfflineData("rows.npz")
    data.seed = 3
    held = split_rows(data.dataset.recording, 0.1, "episode", 3)[1]
    assert sorted(world.starts[:, 0].tolist()) == sorted(data.dataset.obs[held][:, 0][::LENGTH].tolist())
    assert len(world.starts) == 2 and world.horizon == LENGTH and world.recorded_return == LENGTH
    rows = learned_env(ModelSettings("dynamics", starts="rows"))
    assert len(rows.starts) == 2 * LENGTH


def test_gymnasium_makes_it_in_the_units_of_the_data(made: Path) -> None:
    bounds = {"action_low": [2.0], "action_high": [9.0]}
    np.savez("rows.npz", **recorded(), **{f"metadata/{k}": np.array(v) for k, v in bounds.items()})
    env = gymnasium.make("rl/Model-v0", dynamics="dynamics", dataset="rows.npz")
    low, high = env.action_space.low, env.action_space.high
    obs, _ = env.reset(seed=1)
    again, _ = env.reset(seed=1)
    assert np.array_equal(obs, again) and obs[0] >= 100.0
    steps = [env.step(env.action_space.high) for _ in range(LENGTH)]
    assert [step[3] for step in steps] == [False] * (LENGTH - 1) + [True]
    assert all(step[4]["disagreement"] > 0.0 for step in steps)
    assert low.shape == high.shape == (1,)


def test_a_model_that_was_taught_scaled_rewards_pays_real_ones(made: Path) -> None:
    scaled = leave(made.parent / "scaled", reward_scale=4.0, reward_shift=1.0)
    obs, action = torch.randn(5, 2), torch.zeros(5, 1)
    plain, other = (learned_env(ModelSettings(str(path))) for path in (made, scaled))
    rewards = [world.step(obs, action, torch.Generator().manual_seed(0)).reward for world in (plain, other)]
    assert torch.allclose(rewards[1], (rewards[0] - 1.0) / 4.0, atol=1e-5)


def test_the_vector_does_what_the_single_env_does(made: Path) -> None:
    world = learned_env(ModelSettings("dynamics"))
    envs = ModelEnvs(world, 3)
    first = envs.reset(seed=5)[0]
    for _ in range(LENGTH):
        obs, _, terminated, truncated, infos = envs.step(np.zeros((3, 1), np.float32))
    assert truncated.all() and not terminated.any()
    assert (
        infos["episode"]["length"].tolist() == [LENGTH] * 3 and (infos["episode"]["disagreement"] > 0).all()
    )
    assert "ood_fraction" not in infos["episode"]
    assert (obs[:, 0] >= 100.0).all(), "new episodes have begun"
    assert np.array_equal(first, ModelEnvs(world, 3).reset(seed=5)[0])


def test_steps_below_the_threshold_are_counted(made: Path) -> None:
    world = learned_env(ModelSettings("dynamics", str(density(made))))
    near, far = torch.zeros(4, 2), torch.full((4, 2), 1e3)
    draw, action = torch.Generator().manual_seed(0), torch.zeros(4, 1)
    assert world.step(far, action, draw).below.all() and not world.step(near, action, draw).below.all()


def test_a_place_in_an_episode_is_saved_exactly(made: Path) -> None:
    config = EnvConfig("rl/Model-v0", {"dynamics": "dynamics"})
    envs, other = make_envs(config, 2), make_envs(config, 2)
    envs.reset(seed=0)
    for _ in range(4):
        envs.step(np.full((2, 1), 0.3, np.float32))
    saved = envs.snapshot()
    assert envs.call("unsaved") == ("", "")
    other.restore(saved, seed=9)
    ahead = [
        [env.step(np.full((2, 1), -0.2, np.float32))[0].copy() for _ in range(LENGTH)]
        for env in (envs, other)
    ]
    assert np.array_equal(*ahead)


def test_its_picture_shows_what_happened(made: Path) -> None:
    env = gymnasium.make("rl/Model-v0", dynamics="dynamics", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    for _ in range(5):
        env.step(env.action_space.high)
    after = env.render()
    assert before.shape == after.shape and (after != before).sum() > 50


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({}, "dynamics artifact"),
        ({"dynamics": "dynamics", "termination": "Foo"}, "termination 'Foo' is unknown"),
        ({"dynamics": "dynamics", "horizon": 0}, "horizon is 0"),
        ({"dynamics": "dynamics", "starts": "anywhere"}, "choose episodes or rows"),
        ({"dynamics": "dynamics", "dataset": "wide.npz"}, "a model of 2 signals"),
    ],
)
def test_what_it_cannot_be_made_of_is_refused(made: Path, kwargs, said) -> None:
    wide = recorded()
    wide["observations"] = wide["next_observations"] = np.zeros((EPISODES * LENGTH, 5), np.float32)
    np.savez("wide.npz", **wide)
    with pytest.raises(ConfigError, match=said):
        probe_spec(EnvConfig("rl/Model-v0", kwargs))


def test_a_model_that_runs_away_ends_the_episode(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = learned_env(ModelSettings("dynamics"))
    far = ModelStep(torch.tensor([[torch.inf, 0.0], [1.0, 2.0]]), torch.tensor([1.0, torch.nan]))
    monkeypatch.setattr(world.dynamics, "step", lambda *args: far)
    step = world.step(torch.zeros(2, 2), torch.zeros(2, 1), torch.Generator())
    assert step.terminated.all() and step.next_obs.isfinite().all() and step.reward.isfinite().all()
