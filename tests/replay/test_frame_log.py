"""Frames that are kept once: stacks, windows, sums of rewards, and never a step across an episode or a collection."""

import numpy as np
import pytest
import torch
from contracts.cases import BY_NAME
from contracts.harness import fit, metrics, weights
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.errors import ConfigError, DataError, ResumeError
from rl_lightning.replay import reward_samplers
from rl_lightning.replay.frames.frame_log import FrameLog
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec, Steps

FRAMES = 3


def spec(height: int = 1) -> EnvSpec:
    return EnvSpec("rl/Catch-v0", (FRAMES, height, 1), "uint8", "discrete", (), (4,), num_stack=FRAMES)


class Player:
    """N envs whose frames hold a number that never repeats, so that a wrong frame is noticed."""

    def __init__(self, lengths, rewards=(0,), terminal=True):
        self.lengths, self.rewards, self.terminal = lengths, list(rewards), terminal
        n = len(lengths)
        self.age, self.episode, self.clock = [0] * n, [0] * n, 0
        self.first = np.ones(n, bool)
        self.history = [[env * 100] for env in range(n)]  # numbers of the current episode's frames
        self.fresh = [env * 100 for env in range(n)]
        self.truth = []  # (frame, action, reward, next frame, terminated) of every step

    def obs(self, env):
        seen = self.history[env]
        return [seen[max(len(seen) - 1 - back, 0)] for back in range(FRAMES - 1, -1, -1)]

    def play(self, steps):
        n = len(self.lengths)
        shape = (steps, n)
        obs = np.zeros((*shape, FRAMES, 1, 1), np.uint8)
        action, reward = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        over, cut, first = (np.zeros(shape, bool) for _ in range(3))
        ends = []
        for t in range(steps):
            for env in range(n):
                obs[t, env, :, 0, 0] = self.obs(env)
                first[t, env] = self.age[env] == 0
                action[t, env] = self.clock % 4
                reward[t, env] = self.rewards[self.clock % len(self.rewards)]
                self.clock += 1
                self.age[env] += 1
                self.fresh[env] += 1
                before = self.history[env][-1]
                self.history[env].append(self.fresh[env] % 256)
                ended = self.age[env] == self.lengths[env]
                over[t, env], cut[t, env] = ended and self.terminal, ended and not self.terminal
                self.truth.append(
                    (before, action[t, env], reward[t, env], self.history[env][-1], over[t, env])
                )
                if ended:
                    ends.append((t, env, np.array(self.obs(env), np.uint8).reshape(FRAMES, 1, 1)))
                    self.fresh[env] += 1
                    self.age[env], self.history[env] = 0, [self.fresh[env] % 256]
        last = np.array([self.obs(env) for env in range(n)], np.uint8).reshape(n, FRAMES, 1, 1)
        return Steps(obs, action, reward, over, cut, first, last, ends)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.lists(st.integers(1, 7), min_size=1, max_size=5),
    st.booleans(),
)
def test_every_step_is_found_again(lengths, calls, terminal):
    player, log = Player(lengths, (0, 1, -1), terminal), FrameLog(spec())
    played = [player.play(steps) for steps in calls]
    for steps in played:
        log.add(steps)
    run = log.walk(0.9).run
    rows = (run > 0).nonzero()[:, 0]
    window = log.windows(rows, 1, 0.9)
    found = zip(
        window.stack[:, -1, 0, 0].tolist(), window.action[:, 0].tolist(), window.reward[:, 0].tolist(),
        window.frame[:, 0, 0, 0, 0].tolist(), window.terminated[:, 0].tolist(), strict=True,
    )  # fmt: skip
    newest = sum(age > 0 for age in player.age)  # the frame after each env's last step was not seen yet
    truth = [tuple(x.item() if hasattr(x, "item") else x for x in row) for row in player.truth]
    found = list(found)
    assert len(found) == len(truth) - newest and all(row in truth for row in found)
    stacks = {tuple(s.ravel()) for steps in played for s in steps.obs.reshape(-1, FRAMES)}
    assert {tuple(s.ravel().tolist()) for s in window.stack.numpy()} <= stacks


def test_windows_stay_in_their_episode_and_their_collection():
    one, two = FrameLog(spec()), FrameLog(spec())
    one.add(
        Player([5]).play(8)
    )  # an episode of five, and three steps of one that the collection's end breaks off
    two.add(Player([5]).play(5))
    log = FrameLog(spec())
    for part in (one, two):
        log.extend(part)
    assert log.parts == [0, 9] and log.starts(5).tolist() == [0, 9]
    assert log.walk(0.9).run.tolist() == [5, 4, 3, 2, 1, 0, 2, 1, 0, 5, 4, 3, 2, 1, 0]
    window = log.windows(log.starts(5), 5, 0.9)
    assert (np.diff(window.frame[..., 0, 0, 0].int().numpy()) == 1).all()
    with pytest.raises(DataError, match=r"no episode .* has 6 steps in a row; the longest has 5"):
        log.starts(6)


def test_sums_of_rewards_by_hand():
    log = FrameLog(spec())
    log.add(Player([4], (0, -1, 0, 1)).play(4))
    walk = log.walk(0.99)
    g = 0.99
    expected = [0 - g + g**3, -1 + g**2, g, 1.0]  # the last step's reward counts, and -1 is no 255
    assert walk.value[:4].tolist() == pytest.approx(expected) and walk.known[:4].all()


def test_what_a_cut_hides_is_not_called_known():
    log = FrameLog(spec())
    log.add(Player([400], (1,), terminal=False).play(400))
    known = log.walk(0.99).known
    assert not known[150:].any() and known[:100].all()
    broken = FrameLog(spec())
    broken.add(Player([1000], (1,)).play(50))
    assert not broken.walk(0.99).known.any()


def test_the_past_before_an_episode_is_empty():
    log = FrameLog(spec())
    log.add(Player([6]).play(6))
    window = log.windows(torch.tensor([0, 1, 4]), 1, 0.9, past=2)
    assert window.past_valid.tolist() == [[False, False], [False, True], [True, True]]
    assert window.past_stack[2, :, -1, 0, 0].tolist() == [2, 3] and window.past_action[2].tolist() == [2, 3]


def test_saved_in_segments_and_found_again(tmp_path):
    player, log = Player([5, 7]), FrameLog(spec())
    store = SegmentStore(tmp_path)
    for steps in (4, 9):
        log.add(player.play(steps))
        state = log.save(store)
    assert len(state["segments"]) == 2
    again = FrameLog(spec())
    again.load(state, SegmentStore(tmp_path))
    following = player.play(6)
    for each in (log, again):
        each.add(following)
    for name in ("frame", "action", "reward", "terminated", "before", "acted"):
        assert (log.column(name) == again.column(name)).all()
    other = FrameLog(spec(height=2))
    with pytest.raises(ResumeError, match="frames of another size"):
        other.load(state, SegmentStore(tmp_path))


def test_colours_that_frames_hold():
    player = Player([4, 3])  # two envs, whose frames count from 0 and from 100
    log = FrameLog(spec())
    log.add(player.play(5))
    pixels = log.column("frame").ravel().tolist()
    held, counts = set(pixels), log.color_counts(256)
    assert {0, 100} < held and [pixels.count(color) for color in range(256)] == counts.tolist()
    with pytest.raises(DataError, match=f"hold colour {max(held)}; network.colors is 50"):
        log.color_counts(50)


def test_a_step_turns_where_something_rare_leaves_its_course():
    """A dot flies right, stays a step, flies on, and is gone; in the next episode another one flies down."""
    one = [(0, 0), (0, 2), (0, 4), (0, 4), (0, 6), None, None]
    log = FrameLog(EnvSpec("rl/Test-v0", (2, 8, 8), "uint8", "discrete", (), (2,), num_stack=2))
    paths = [one, [(0, 0), (2, 0), (4, 0), (5, 0)]]
    count = sum(len(path) for path in paths)
    log._reserve(count)
    log.count, row = count, 0
    for path in paths:
        for t, place in enumerate(path):
            if place is not None:
                log.column("frame")[row, 0, place[0], place[1]] = 9
            log.column("before")[row] = row - (t > 0)
            log.column("acted")[row] = t + 1 < len(path)
            row += 1
    rare = torch.zeros(256, dtype=torch.bool)
    assert not log.direction_changes(rare).any()
    rare[9] = True
    assert log.direction_changes(rare).nonzero()[:, 0].tolist() == [2, 3], (
        "a pixel less is no turn, nor is what cannot be seen"
    )


def test_a_hundred_thousand_steps_fit_a_gigabyte():
    atari = EnvSpec("ALE/Freeway-v5", (4, 105, 80), "uint8", "discrete", (), (3,), num_stack=4)
    assert FrameLog(atari, 102_400).nbytes() < 1e9  # zeros that are never touched cost no memory here


COUNTS = {
    "rare": (0, 9900, 100),
    "three": (30, 9700, 270),
    "no reward": (0, 10_000, 0),
    "all paid": (50, 0, 50),
}
SAMPLERS = {
    "online": (reward_samplers.OnlineSampler(), lambda n: n),
    "class_balanced": (reward_samplers.ClassBalancedSampler(), lambda n: n**0),
    "square_root": (reward_samplers.SquareRootSampler(), lambda n: n**0.5),
}


def synthetic(counts):
    reward = torch.cat([torch.full((n,), float(sign)) for n, sign in zip(counts, (-1, 0, 1), strict=True)])
    return reward[torch.randperm(len(reward), generator=torch.Generator().manual_seed(0))]


def drawn(sampler, reward, count=100_000, progress=0.0, beside=None):
    nothing = torch.zeros_like(reward, dtype=torch.bool)
    earlier, later = beside or (nothing, nothing)
    draw = reward_samplers.GroupSampler(sampler, torch.arange(len(reward)), reward, earlier, later)
    return draw(count, progress, torch.Generator().manual_seed(1))


def agrees(found, expected):
    """The hypothesis that these counts come from those shares is not rejected; what has no share never comes."""
    expected = np.asarray(expected, float) / sum(expected)
    assert not np.asarray(found)[expected == 0].any()
    some = expected > 0
    return some.sum() == 1 or chisquare(np.asarray(found)[some], expected[some] * sum(found)).pvalue > 1e-3


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_shares_of_signs(name, counts):
    sampler, weight = SAMPLERS[name]
    reward = synthetic(counts)
    rows = drawn(sampler, reward)
    found = [int((reward[rows] == sign).sum()) for sign in (-1, 0, 1)]
    assert agrees(found, [weight(n) if n else 0 for n in counts])


def test_steps_of_a_group_are_alike():
    reward = synthetic((0, 40, 10))
    rows = drawn(reward_samplers.ClassBalancedSampler(), reward)
    assert agrees(torch.bincount(rows[reward[rows] > 0], minlength=50)[reward > 0].tolist(), [1] * 10)


def test_progressive_goes_from_one_to_the_other():
    reward, sampler = synthetic((0, 9900, 100)), reward_samplers.ProgressivelyBalancedSampler()
    for progress, paid in ((0.0, 0.01), (0.5, 0.255), (1.0, 0.5)):
        rows = drawn(sampler, reward, progress=progress)
        found = int((reward[rows] > 0).sum())
        assert agrees([100_000 - found, found], [1 - paid, paid])


def log_of(rewards, lengths):
    log = FrameLog(spec())
    log.add(Player(lengths, rewards).play(sum(lengths) if len(lengths) == 1 else len(rewards)))
    return log


def groups(log, **options):
    rows = (log.walk(0.99).run > 0).nonzero()[:, 0]
    earlier, later = log.neighbors()
    reward = log.tensor("reward")[rows]
    draw = reward_samplers.GroupSampler(
        reward_samplers.MBARCSampler(**options), rows, reward, earlier[rows], later[rows]
    )
    return [group.tolist() for group in draw.groups], draw


def test_near_is_beside_a_reward_in_the_same_episode():
    """Rewards at 2 (+) and 5 (-, the last step): 1, 3 and 4 are near, and the next episode's first step is not."""
    log = FrameLog(spec())
    log.add(Player([6], (0, 0, 1, 0, 0, -1, 0, 0, 0, 0, 0, 0)).play(12))
    assert groups(log)[0] == [[0, 7, 8, 9, 10, 11, 12], [1, 3, 4], [5], [2]]
    assert groups(log, near_side="after")[0][1] == [3]


@pytest.mark.parametrize("signs", [(1,), (-1,), (1, -1)], ids=["plus", "minus", "both"])
def test_mbarc_shares(signs):
    reward = torch.zeros(10_000)
    for k, place in enumerate(range(50, 10_000, 100)):
        reward[place] = signs[k % len(signs)]
    paid = reward != 0
    beside = (torch.roll(paid, 1), torch.roll(paid, -1))
    near = (beside[0] | beside[1]) & ~paid
    rows = drawn(reward_samplers.MBARCSampler(), reward, beside=beside)
    found = [
        (~paid & ~near)[rows].sum(),
        near[rows].sum(),
        (reward < 0)[rows].sum(),
        (reward > 0)[rows].sum(),
    ]
    on = [0.6 * (s in signs) / len(signs) for s in (-1, 1)]
    assert agrees([int(n) for n in found], [0.35, 0.05, *on])


def test_mbarc_without_any_reward_draws_what_there_is():
    rows = drawn(reward_samplers.MBARCSampler(), torch.zeros(20))
    assert set(rows.tolist()) == set(range(20))
    only = drawn(reward_samplers.MBARCSampler((0.0, 0.0, 1.0)), torch.zeros(20))
    assert set(only.tolist()) == set(range(20))


def test_split_of_rewards_by_their_counts():
    reward = synthetic((100, 9600, 300))
    rows = drawn(reward_samplers.MBARCSampler((0.5, 0.0, 0.5), sign_power=1.0), reward)
    found = [int((reward[rows] == sign).sum()) for sign in (-1, 0, 1)]
    assert agrees(found, [0.125, 0.5, 0.375])


@pytest.mark.parametrize(
    "given", [{"near_side": "before"}, {"mbarc_dist": (0, 0, 0)}, {"mbarc_dist": (-1, 1, 1)}]
)
def test_senseless_shares_are_refused(given):
    with pytest.raises(ConfigError, match="sampler"):
        reward_samplers.MBARCSampler(**given)


@pytest.mark.parametrize("name", ["collect", "explore"])
def test_collecting_teaches_nothing_and_repeats(name, tmp_path):
    case, run = BY_NAME[name], RunConfig(env_steps=64)
    first, second = (fit(case, run, seed=3, folder=tmp_path / name) for name in "ab")
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b") and first.data.clock.update == 0
    assert (first.data.log.column("frame") == second.data.log.column("frame")).all()
    before = case.model(first.data.spec)
    assert weights(before).keys() == weights(first.model).keys()
