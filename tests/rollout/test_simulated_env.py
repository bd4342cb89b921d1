"""A learned world as a vector env: the contract of all vector envs, and with a perfect world the real rewards."""

import copy
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from rl_lightning.algorithms import PPO
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.wrappers.transforms import FrameStack, GrayLevelIndex
from rl_lightning.errors import ConfigError
from rl_lightning.models.frames.frame_world import NextFramePredictor, PredictedStep
from rl_lightning.nn import PaletteCNN
from rl_lightning.nn.frames.reward_net import MeanRewardNet, SpatialRewardNet
from rl_lightning.rollout.collect import Collector
from rl_lightning.rollout.simulated_env import SimulatedEnvs, StartStates, picture

SIDE = 6
CATCH = EnvConfig(
    "rl/Catch-v0", {"rows": SIDE, "columns": SIDE}, transforms=[GrayLevelIndex(), FrameStack(2)]
)


class PerfectCatch:
    """The rules of Catch, read off the newest frame: a table of what follows what."""

    colors, frame_shape, state_size = 3, (1, SIDE, SIDE), 0
    values = 5.0

    def predict_step(self, stack, action, state, head, generator):
        frame = stack[:, -1]
        rows, columns = zip(
            *[divmod(int((f == 2).flatten().nonzero()[0, 0]), SIDE) for f in frame], strict=True
        )
        paddle = [
            int((f[-1] == 1).nonzero()[0, 0]) if (f[-1] == 1).any() else c
            for f, c in zip(frame, columns, strict=True)
        ]
        new = torch.zeros_like(stack[:, -1:])
        reward, over = torch.zeros(len(stack)), torch.zeros(len(stack), dtype=torch.bool)
        for n, a in enumerate(action.tolist()):
            p = min(max(paddle[n] + (0, -1, 1)[a], 0), SIDE - 1)
            y = min(rows[n] + 1, SIDE - 1)
            new[n, 0, -1, p] = 1
            new[n, 0, y, columns[n]] = 2
            over[n] = y == SIDE - 1
            reward[n] = (1.0 if p == columns[n] else -1.0) if over[n] else 0.0
        return PredictedStep(new, reward, over, None)

    def push(self, stack, frame):
        return torch.cat([stack[:, 1:], frame], 1)

    def warm_up_state(self, stacks, actions, valid):
        return None

    def state_value(self, stack, state=None):
        return torch.full((len(stack),), self.values)


class Given:
    """Starts at given stacks, one after the other."""

    def __init__(self, stacks):
        self.stacks, self.next = stacks, 0

    def _at(self, rows):
        empty = self.stacks[:0].unsqueeze(1).expand(0, 0, *self.stacks.shape[1:])
        count = len(rows)
        return StartStates(
            rows,
            empty.new_zeros(count, 0, *self.stacks.shape[1:]),
            torch.zeros(count, 0).long(),
            torch.zeros(count, 0).bool(),
        )

    def draw(self, count, generator):
        index = torch.randint(len(self.stacks), (count,), generator=generator)
        return self._at(self.stacks[index])

    def first(self):
        return self._at(self.stacks[:1])


class InOrder(Given):
    """The stacks in the order of the real env's episodes."""

    def draw(self, count, generator):
        found = self.stacks[self.next : self.next + count]
        self.next += count
        return self._at(found)


def first_stacks(count: int = 20) -> torch.Tensor:
    envs = make_envs(CATCH, count)
    obs, _ = envs.reset(seed=3)
    return torch.from_numpy(obs.copy())


def simulated(count: int = 3, horizon: int = 20, starts=None, **more) -> SimulatedEnvs:
    spec = make_envs(CATCH, 1).env_spec
    return SimulatedEnvs(PerfectCatch(), None, starts or Given(first_stacks()), spec, count, horizon, **more)


def agent(spec):
    torch.manual_seed(1)
    small = partial(
        PaletteCNN, gray_levels=[0, 128, 255], channels=[4], kernel_sizes=[3], strides=[1], hidden_dim=16
    )
    return PPO(spec, network=small, share_network=True)


def test_a_perfect_world_pays_ppo_what_the_real_env_pays():
    """Same agent, same draws, same starts: observations, rewards and ends agree to the last bit, over many episodes."""
    real = make_envs(CATCH, 2)
    collected = Collector(real, 11)
    module = agent(real.env_spec)
    truth = collected.collect(module.act_fn(), 40, torch.Generator().manual_seed(5))
    begun = [torch.from_numpy(truth.obs[0])]
    begun += [torch.from_numpy(truth.obs[t + 1, [n]]) for t, n, _ in truth.ends if t + 1 < 40]
    begun += [torch.from_numpy(truth.last_obs[[n]]) for t, n, _ in truth.ends if t + 1 == 40]
    starts = InOrder(torch.cat(begun))
    dreamed = Collector(simulated(2, 100, starts, pin_last_env_to_start=False), 0)
    module_again = agent(real.env_spec)
    dream = dreamed.collect(module_again.act_fn(), 40, torch.Generator().manual_seed(5))
    assert len(truth.ends) >= 10 and (truth.reward != 0).any()
    for name in ("obs", "action", "reward", "terminated", "truncated", "is_first", "last_obs"):
        assert (getattr(dream, name) == getattr(truth, name)).all(), name
    assert all((a[2] == b[2]).all() for a, b in zip(dream.ends, truth.ends, strict=True))


def test_the_vector_api():
    envs = simulated(4, horizon=3)
    assert isinstance(envs, VectorEnv) and envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    obs, infos = envs.reset(seed=7)
    assert obs in envs.observation_space and infos == {} and envs.action_space.shape == (4,)
    again, _ = envs.reset(seed=7)
    assert (obs == again).all()
    other, _ = envs.reset(seed=8)
    assert not (obs == other).all()
    for t in range(12):
        given = envs.action_space.sample()
        obs, reward, terminated, truncated, infos = envs.step(given)
        kept = obs.copy()
        assert obs in envs.observation_space and obs.dtype == np.uint8
        assert reward.shape == (4,) and reward.dtype == np.float32
        assert terminated.dtype == truncated.dtype == np.bool_ and not (terminated & truncated).any()
        ended = terminated | truncated
        assert ("final_obs" in infos) == bool(ended.any()) and set(infos) <= {"final_obs", "episode"}
        if ended.any():
            assert (infos["episode"]["length"] > 0).tolist() == ended.tolist()
            assert infos["final_obs"].shape == obs.shape
        del t
    envs.step(envs.action_space.sample())
    assert (obs == kept).all(), "an observation that was handed out must not change"
    assert isinstance(envs.single_action_space, gymnasium.spaces.Discrete)
    envs.close()


def test_wrappers_of_gymnasium_fit():
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(simulated(2, horizon=2), stats_key="stats")
    envs.reset(seed=0)
    for _ in range(2):
        *_, infos = envs.step(np.zeros(2, np.int64))
    assert infos["stats"]["l"].tolist() == [2, 2]


def test_an_episode_is_cut_at_the_horizon_and_its_worth_counted_once():
    """Truncated, with the true last frames for the critic; or paid by the world's value, discounted, and over."""
    starts = Given(first_stacks(1))
    critic = simulated(1, horizon=2, starts=starts)
    critic.reset(seed=0)
    critic.step(np.array([0]))
    obs, reward, terminated, truncated, infos = critic.step(np.array([0]))
    assert reward[0] == 0.0 and truncated[0] and not terminated[0]
    ball = int(np.argwhere(infos["final_obs"][0, -1] == 2)[0, 0])
    assert ball == 2 and np.argwhere(obs[0, -1] == 2)[0, 0] == 0
    world = simulated(1, horizon=2, starts=starts, truncation_value="world_model", gamma=0.9)
    world.reset(seed=0)
    world.step(np.array([0]))
    _, reward, terminated, truncated, infos = world.step(np.array([0]))
    assert reward[0] == pytest.approx(0.9 * 5.0) and terminated[0] and not truncated[0]
    assert infos["episode"]["return"][0] == 0.0, "what was foreseen is no part of the score"


def test_the_last_agent_begins_at_the_beginning():
    stacks = first_stacks()
    envs = simulated(5, starts=Given(stacks))
    firsts = [envs.reset(seed=seed)[0] for seed in range(8)]
    assert all((obs[-1] == stacks[0].numpy()).all() for obs in firsts)
    assert not all((obs[0] == stacks[0].numpy()).all() for obs in firsts)
    free = simulated(5, starts=Given(stacks), pin_last_env_to_start=False)
    assert not all((free.reset(seed=seed)[0][-1] == stacks[0].numpy()).all() for seed in range(8))


@pytest.mark.parametrize("state_size", [0, 2], ids=["plain", "with memory"])
def test_restored_agents_go_on_as_if_nothing_had_been(state_size):
    torch.manual_seed(0)
    spec = make_envs(CATCH, 1).env_spec
    recipe = partial(
        NextFramePredictor,
        colors=3,
        embed_dim=4,
        base_channels=8,
        compress_steps=1,
        filter_double_steps=1,
        bottleneck_bits=8,
        latent_filters=(4, 4),
        latent_state_size=8,
        reward_net=MeanRewardNet,
        recurrent_state_size=state_size,
    )
    world = recipe(spec).eval()
    world.latent_anneal.fill_(1.0)

    def made():
        return SimulatedEnvs(world, None, Given(first_stacks()), spec, 3, 4)

    envs = made()
    envs.reset(seed=2)
    actions = np.random.default_rng(0).integers(3, size=(14, 3))
    for action in actions[:6]:
        envs.step(action)
    states = envs.snapshot()
    expected = [envs.step(action) for action in actions[6:]]
    fresh = made()
    assert fresh.restore(states) == {}
    for action, wanted in zip(actions[6:], expected, strict=True):
        for a, b in zip(fresh.step(action)[:4], wanted[:4], strict=True):
            assert (a == b).all()


@pytest.mark.parametrize("state_size", [0, 2])
def test_half_precision_foretells_nearly_the_same(state_size):
    torch.manual_seed(0)
    spec = make_envs(CATCH, 1).env_spec
    recipe = partial(
        NextFramePredictor,
        colors=3,
        embed_dim=4,
        base_channels=8,
        compress_steps=1,
        filter_double_steps=1,
        bottleneck_bits=8,
        latent_filters=(4, 4),
        latent_state_size=8,
        reward_net=SpatialRewardNet,
        recurrent_state_size=state_size,
    )
    world = recipe(spec).eval()
    world.latent_anneal.fill_(1.0)
    seen = []
    for half in (False, True):
        prepared = copy.deepcopy(world).for_simulation(half)
        envs = SimulatedEnvs(
            prepared, None, Given(first_stacks()), spec, 8, 1, truncation_value="world_model", sim_dtype=half
        )
        envs.reset(seed=2)
        seen.append(envs.step(np.zeros(8, np.int64)))
    assert (seen[0][0] == seen[1][0]).mean() > 0.9 and np.abs(seen[0][1] - seen[1][1]).mean() < 0.5


def test_pictures_for_people():
    envs = simulated(2)
    envs.reset(seed=0)
    shown = envs.render()
    assert len(shown) == 2 and shown[0].shape == (4 * SIDE, 4 * SIDE, 3) and shown[0].dtype == np.uint8
    assert picture(np.zeros((3, 2, 2), np.uint8), 0).shape == (8, 8, 3)
    assert picture(np.full((1, 2, 2), 7, np.uint8), 128)[0, 0].tolist() == [236, 236, 236]


def test_senseless_settings_are_refused():
    with pytest.raises(ConfigError, match="critic or world"):
        simulated(truncation_value="both")
