"""The parts alone: data modules and algorithms made in Python, of envs, arrays and networks of one's own."""

import json
import threading
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from contracts.case import Case
from contracts.harness import assert_same, fit, state
from torch import nn

from rl_lightning.algorithms import (
    BC,
    BCQ,
    CQL,
    DQN,
    FQE,
    IQL,
    PPO,
    SAC,
    TD3,
    TD3_BC,
    DiffusionPolicy,
    DiscreteSAC,
    ReBRAC,
)
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules import OfflineData, OnlineData, OnPolicyData
from rl_lightning.datasets import load_dataset
from rl_lightning.envs.make import EnvConfig, make_envs, probe_spec
from rl_lightning.envs.own_envs import OwnEnv, as_env_config
from rl_lightning.errors import ConfigError, DataError, EnvError
from rl_lightning.functional.diffusion_samplers import DDIM
from rl_lightning.models.imitation_losses import NegativeLogLikelihood
from rl_lightning.nn import MLP
from rl_lightning.nn.own_torso import _OwnTorso
from rl_lightning.types import EnvSpec


class Walk(gymnasium.Env):
    """One step right pays; ten steps are an episode."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int = 10, render_mode: str | None = None) -> None:
        self.length, self.render_mode, self.at, self.steps = length, render_mode, 0, 0

    def _obs(self):
        return np.array([self.at, self.steps], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = int(self.np_random.integers(3)), 0
        return self._obs(), {}

    def step(self, action):
        self.at += 1 if action else -1
        self.steps += 1
        return self._obs(), float(action), self.steps >= self.length, False, {}

    def render(self):
        return np.zeros((8, 8, 3), np.uint8)


def make_cartpole() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")


@pytest.mark.parametrize(
    ("env", "env_id", "limit"),
    [
        ("CartPole-v1", "CartPole-v1", 500),
        ({"id": "CartPole-v1", "max_episode_steps": 30}, "CartPole-v1", 30),
        (EnvConfig(id="CartPole-v1"), "CartPole-v1", 500),
        (Walk, "Walk", None),
        ({"id": Walk, "kwargs": {"length": 3}, "max_episode_steps": 7}, "Walk", 7),
        (make_cartpole, "CartPole-v1", 500),
        (lambda: gymnasium.make("CartPole-v1"), "CartPole-v1", 500),
        (lambda: Walk(4), "Walk", None),
        (partial(Walk, length=4), "partial", None),
    ],
)
def test_an_env_is_given_in_every_way(env, env_id, limit):
    data = OnPolicyData(env, num_envs=2)
    assert (data.spec.env_id, data.spec.max_episode_steps) == (env_id, limit)
    assert OnlineData(env).spec == data.spec


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (Walk(), "env is a made Walk, but several are needed"),
        (int, "int is not a gymnasium.Env"),
        (3, "env is 3; an env is given as"),
        ({"name": "CartPole-v1"}, "env has no setting 'name'"),
        (lambda: 3, "made a int, not a gymnasium.Env"),
    ],
)
def test_what_is_no_env_is_refused_in_a_line(env, said):
    with pytest.raises(ConfigError) as caught:
        OnPolicyData(env)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_an_env_that_raises_is_told_by_name():
    with pytest.raises(EnvError, match="Walk cannot be made: TypeError"):
        OnPolicyData({"id": Walk, "kwargs": {"width": 3}})


def test_layers_that_only_check_are_left_out():
    env = as_env_config(make_cartpole).base({}, None)
    assert type(env).__name__ == "TimeLimit" and env.env is env.unwrapped


def test_a_picture_is_drawn_where_the_class_can():
    envs = make_envs(as_env_config(Walk), 1, render_mode="rgb_array")
    assert envs.render()[0].shape == (8, 8, 3)
    envs.close()
    with pytest.raises(ConfigError, match="takes no render_mode"):
        make_envs(as_env_config(make_cartpole), 1, render_mode="rgb_array")


def test_workers_make_what_can_be_pickled():
    envs = make_envs(as_env_config(lambda: Walk(3)), 2, "async")
    obs, _ = envs.reset(seed=0)
    assert obs.shape == (2, 2)
    envs.close()
    lock = threading.Lock()
    config = OwnEnv(id="Walk", factory=lambda: Walk(3 if lock else 4))
    with pytest.raises(ConfigError, match="cannot go to worker processes") as caught:
        make_envs(config, 2, "async")
    assert "\n" not in str(caught.value)


def own_case(vectorization: str = "sync") -> Case:
    data = partial(OnPolicyData, env=Walk, num_envs=4, rollout_steps=8, vectorization=vectorization)
    model = partial(
        PPO, network=lambda width: nn.Sequential(nn.Linear(width, 8), nn.Tanh()), minibatch_size=16
    )
    return Case("own", data, model)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_run_of_own_parts_resumes_exactly(vectorization, tmp_path):
    run = RunConfig(env_steps=256, eval_every=96, eval_episodes=2, save_minutes=None)
    case = own_case(vectorization)
    fit(case, run, 5, tmp_path / "straight")
    fit(case, run, 5, tmp_path / "parts", until=128)
    resumed = fit(case, run, 5, tmp_path / "parts", resume=True)
    assert not resumed.data.restarted
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


def test_a_config_cannot_hand_over_code():
    from rl_lightning.runs.config.parsing import parse_config
    from rl_lightning.runs.process import unchanged_process
    from rl_lightning.runs.request import Request

    for env in (
        {"class_path": "rl_lightning.envs.own_envs.OwnEnv", "init_args": {"factory": "os.getcwd"}},
        {"id": "CartPole-v1", "factory": "os.getcwd"},
    ):
        config = {"model": {"class_path": "rl_lightning.algorithms.online.ppo.PPO"}}
        config["data"] = {
            "class_path": "rl_lightning.datamodules.on_policy_data.OnPolicyData",
            "init_args": {"env": env},
        }
        with unchanged_process(), pytest.raises(ConfigError):
            parse_config(config, Request())


ROWS = 40


def arrays(**changed):
    draw = np.random.default_rng(0)
    obs = draw.standard_normal((ROWS, 3))
    end = np.arange(ROWS) % 10 == 9
    made = {
        "observations": obs,
        "actions": draw.uniform(-1, 1, (ROWS, 2)),
        "rewards": draw.standard_normal(ROWS),
        "next_observations": np.where(end[:, None], 0.5, np.roll(obs, -1, 0)),
        "terminals": end,
    }
    return {key: value for key, value in {**made, **changed}.items() if value is not None}


def test_arrays_are_learned_from_without_an_env():
    data = OfflineData(arrays(), batch_size=8)
    assert data.spec.obs_shape == (3,) and data.spec.action_shape == (2,) and data.env is None
    assert data.dataset.episodes == 4 and data.source == "arrays in memory"
    case = Case("own", lambda: data, partial(IQL, hidden_dims=[8]))
    before = case.model(data.spec).state_dict()
    fitted = fit(case, RunConfig(updates=3))
    assert fitted.data.clock.update == 3
    assert any(not torch.equal(before[name], weight) for name, weight in fitted.model.state_dict().items())


def test_arrays_are_rows_of_a_file_of_the_same_arrays(tmp_path):
    np.savez(tmp_path / "same.npz", **arrays(timeouts=np.zeros(ROWS, bool)))
    stored, given = load_dataset(str(tmp_path / "same.npz")), OfflineData(arrays()).dataset
    for name in ("obs", "action", "reward", "next_obs", "terminated", "truncated", "episode"):
        assert torch.equal(getattr(stored, name), getattr(given, name)), name
    assert OfflineData(given).dataset is given
    assert given.sha256 != OfflineData(arrays(rewards=np.ones(ROWS))).dataset.sha256


def test_where_episodes_were_cut_is_seen_in_what_follows():
    data = OfflineData(arrays(terminals=np.zeros(ROWS, bool))).dataset
    assert data.episodes == 4 and int(data.truncated.sum()) == 4
    ended = OfflineData(arrays(next_observations=None)).dataset
    assert ended.episodes == 4 and int(ended.terminated.sum()) == 4


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"actions": None}, "no array 'actions'"),
        (
            {"rewards": np.full(ROWS, np.nan)},
            "'rewards' has NaN or infinite numbers in 40 rows, first in row 0",
        ),
        ({"actions": np.zeros((ROWS - 1, 2))}, "'actions' has 39 rows and 'observations' 40"),
        ({"terminals": np.full(ROWS, 2)}, "'terminals' must be 0 or 1"),
        ({"observations": np.array([object()] * ROWS)}, "not plain numbers"),
        ({"next_observations": None, "terminals": np.zeros(ROWS, bool)}, "neither 'timeouts' nor"),
    ],
)
def test_bad_arrays_are_refused_in_a_line(changed, said):
    with pytest.raises(DataError) as caught:
        OfflineData(arrays(**changed))
    assert said in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(DataError, match="dataset is a int"):
        OfflineData(3)


def test_the_env_that_is_given_must_fit():
    with pytest.raises(DataError, match="those of Walk"):
        OfflineData(arrays(), env=Walk)
    flat = arrays(observations=np.zeros((ROWS, 2)), next_observations=None, actions=np.zeros(ROWS, np.int64))
    assert OfflineData(flat, env=Walk).eval_envs(2).num_envs == 2


def test_a_replay_starts_with_arrays_in_memory():
    rows = arrays(observations=np.zeros((ROWS, 2)), next_observations=None, actions=np.arange(ROWS) % 2)
    data = OnlineData(Walk, dataset=rows, learning_starts=8, batch_size=8)
    fitted = fit(Case("own", lambda: data, partial(DQN, network=Sized)), RunConfig(env_steps=16))
    assert len(fitted.data.buffer) == ROWS + 16
    with pytest.raises(DataError, match="those of Walk"):
        OnlineData(Walk, dataset=arrays())


def test_a_diffusion_policy_sees_through_any_module():
    pictures = FRAMES._replace(
        action_kind="continuous",
        action_sizes=(),
        action_shape=(2,),
        action_low=(-1.0,) * 2,
        action_high=(1.0,) * 2,
    )
    for spec, encoder in ((pictures, seen), (NARROW, Sized)):
        module = DiffusionPolicy(spec, obs_encoder=encoder, sampler=DDIM(2))
        obs = torch.zeros(4, *spec.obs_shape, dtype=getattr(torch, spec.obs_dtype))
        action, _ = module.eval().act(obs, module.initial_carry(4), torch.Generator().manual_seed(0))
        assert action.shape == (4, 2) and module.hyper_parameters["obs_encoder"]["given_in_python"]
    with pytest.raises(ConfigError, match="obs_encoder is a made Linear"):
        DiffusionPolicy(NARROW, obs_encoder=nn.Linear(3, 4))


def test_a_minari_data_set_is_taken_as_it_is_filtered(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env, buffers = gymnasium.make("Pendulum-v1"), []
    for seed in range(3):
        env.action_space.seed(seed)
        obs, actions = [env.reset(seed=seed)[0]], [env.action_space.sample() for _ in range(5)]
        obs += [env.step(action)[0] for action in actions]
        ends = [False, False, False, False, True]
        buffers.append(
            EpisodeBuffer(
                seed, seed, None, np.array(obs), np.array(actions), [1.0] * 5, [False] * 5, ends, None
            )
        )
    dataset = minari.create_dataset_from_buffers("test/own-v0", buffers, env=env)
    given, named = OfflineData(dataset), OfflineData("minari/test/own-v0")
    assert given.spec == named.spec and given.env == named.env
    assert torch.equal(given.dataset.obs, named.dataset.obs)
    assert torch.equal(given.dataset.action, named.dataset.action)
    some = OfflineData(dataset.filter_episodes(lambda episode: episode.id == 1))
    assert some.dataset.episodes == 1 and torch.equal(some.dataset.obs, given.dataset.obs[5:10])


SPEC = EnvSpec("Walk", (2,), action_kind="discrete", action_sizes=(2,))
CONTINUOUS = EnvSpec("Walk", (2,), action_shape=(1,), action_low=(-1.0,), action_high=(1.0,))
FRAMES = EnvSpec("Frames", (3, 8, 8), "uint8", action_kind="discrete", action_sizes=(2,))


class Features(nn.Module):
    """A network that knows nothing of this package."""

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(in_features, 6), nn.BatchNorm1d(6), nn.ReLU())

    def forward(self, x):
        return self.layers(x)


def seen(shape) -> nn.Module:
    return nn.Sequential(nn.Conv2d(shape[0], 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5))


@pytest.mark.parametrize(
    ("algorithm", "spec"), [(PPO, SPEC), (DQN, SPEC), (DiscreteSAC, SPEC), (SAC, CONTINUOUS)]
)
@pytest.mark.parametrize("network", [Features, lambda width: nn.Linear(width, 6)])
def test_a_network_is_any_class_or_function_that_makes_a_module(algorithm, spec, network):
    module = algorithm(spec, network=network)
    torsos = [part for part in module.modules() if isinstance(part, _OwnTorso)]
    assert torsos and all(torso.out_dim == 6 and torso.module.training for torso in torsos)
    action, _ = module.eval().act(torch.zeros(3, 2), module.initial_carry(3), None)
    assert len(action) == 3
    assert module.hyper_parameters["network"]["given_in_python"]
    assert module.exports() == {}, "no later stage could make it again"


NARROW = EnvSpec(
    "RolloutMinibatches", (3,), action_shape=(2,), action_low=(-1.0,) * 2, action_high=(1.0,) * 2
)


class Sized(nn.Module):
    """Remembers how wide its input was."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.linear = width, nn.Linear(width, 6)

    def forward(self, x):
        return torch.tanh(self.linear(x))


@pytest.mark.parametrize(
    ("algorithm", "given", "widths"),
    [
        (BC, {"network": Sized}, {3}),
        (partial(BC, loss=NegativeLogLikelihood()), {"network": Sized}, {3}),
        (IQL, {"network": Sized}, {3}),
        (IQL, {"critic_network": Sized, "num_critics": 3}, {3, 5}),
        (TD3_BC, {"network": Sized, "critic_network": Sized}, {3, 5}),
        (BCQ, {"network": Sized, "num_samples": 4}, {5}),
        (BCQ, {"vae_network": Sized, "num_samples": 4}, {5, 7}),
    ],
)
def test_policies_and_critics_of_a_data_set_take_networks_too(algorithm, given, widths):
    data = OfflineData(arrays(), batch_size=8)
    module = algorithm(data.spec, **given)
    own = [part for part in module.modules() if isinstance(part, Sized)]
    assert {part.width for part in own} == widths
    before = {name: weight.clone() for name, weight in module.named_parameters()}
    fitted = fit(Case("own", lambda: data, lambda spec: module), RunConfig(updates=2))
    assert fitted.data.clock.update == 2
    still = [name for name, weight in module.named_parameters() if torch.equal(weight, before[name])]
    assert not [name for name in still if "slow" not in name and "linear.weight" in name]


def test_an_own_policy_has_no_artifact_and_a_named_one_has(tmp_path):
    from safetensors.torch import save_file

    from rl_lightning.artifacts import load_exported
    from rl_lightning.nn import MLP

    for algorithm in (BC, IQL, TD3_BC, TD3, ReBRAC, CQL, partial(BCQ, num_samples=4)):
        assert algorithm(NARROW, network=Sized).exports() == {}
        module = algorithm(NARROW, network=partial(MLP, hidden_dims=[5], activation="silu"))
        about = {"exports": {"policy": module.exports()["policy"]._asdict()}}
        (tmp_path / "artifact.json").write_text(json.dumps(about))
        save_file(module.state_dict(), tmp_path / "weights.safetensors")
        obs = torch.randn(4, 3)
        assert torch.equal(load_exported(tmp_path, "policy").greedy(obs), module.act(obs, (), None)[0])
    assert IQL(NARROW, critic_network=Sized).exports(), "its policy is a plain one"


def test_a_valued_policy_is_valued_by_networks_of_ones_own():
    module = FQE(NARROW, "nowhere", num_critics=3, network=Sized)
    shared = module.q(torch.zeros(4, 3), torch.zeros(4, 2))
    own = module.q(torch.zeros(3, 4, 3), torch.zeros(3, 4, 2))
    assert shared.shape == (3, 4) and torch.equal(shared, own)
    assert not torch.equal(shared[0], shared[1]), "each critic has weights of its own"


def test_sizes_beside_a_network_are_refused():
    with pytest.raises(ConfigError, match="network and hidden_dims are both given"):
        BC(NARROW, hidden_dims=[8], network=Sized)
    with pytest.raises(ConfigError, match="critic_network and critic_hidden_dims are both given"):
        IQL(NARROW, critic_hidden_dims=[8], critic_network=Sized)
    with pytest.raises(ConfigError, match="critic_network is a made Linear"):
        TD3_BC(NARROW, critic_network=nn.Linear(5, 6))


def test_a_network_that_remembers_learns_from_no_single_rows():
    from rl_lightning.nn import RNN

    for algorithm in (BC, IQL):
        with pytest.raises(ConfigError, match="RNN remembers"):
            algorithm(NARROW, network=RNN)


def test_a_config_chooses_the_network():
    from rl_lightning.runs.config.parsing import parse_config
    from rl_lightning.runs.process import unchanged_process
    from rl_lightning.runs.request import Request

    flags = ["--data.env.id=Pendulum-v1", "--model.network=MLP", "--model.network.hidden_dims=[7]"]
    for model in ("BC", "IQL", "TD3_BC", "BCQ"):
        config = {"model": model, "data": {"class_path": "OfflineData", "init_args": {"dataset": "none"}}}
        with unchanged_process():
            cli = parse_config(config, Request(overrides=flags))
        plain = cli.plain()["model"]["init_args"]["network"]
        assert plain["class_path"].endswith("MLP") and plain["init_args"]["hidden_dims"] == [7]


def test_pictures_reach_it_as_numbers_of_any_lead():
    module = PPO(FRAMES, network=seen, share_network=True)
    rollout = torch.randint(0, 256, (2, 3, 3, 8, 8), dtype=torch.uint8)
    assert module.torso(rollout).shape == (2, 3, 5)
    rows = rollout.flatten(0, 1).float() / 255
    assert torch.allclose(module.torso(rollout).flatten(0, 1), module.torso.module(rows))


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (nn.Linear(2, 3), "network is a made Linear, but several are needed"),
        (lambda width: nn.Linear(width + 1, 3), r"does not take observations \[1, 2\]"),
        (lambda width: nn.Unflatten(1, (1, 2)), r"gives \[1, 1, 2\] for observations \[1, 2\]"),
        (lambda width: nn.LSTM(width, 3), "gives tuple for observations"),
        (lambda width: 3, "made a int, not an nn.Module"),
        (7, "network is 7"),
    ],
)
def test_a_wrong_network_is_refused_in_a_line(network, said):
    with pytest.raises(ConfigError, match=said) as caught:
        PPO(SPEC, network=network)
    assert "\n" not in str(caught.value)


def test_a_class_of_ours_is_a_network_as_it_stands():
    assert PPO(SPEC, network=MLP).torso.out_dim == 64


def test_the_spec_of_own_envs_is_probed_without_a_trace():
    made = []

    def factory():
        made.append(Walk())
        return made[-1]

    assert probe_spec(as_env_config(factory)).obs_shape == (2,)
