"""What the snapshot tests do: play, save, go on; then restore into other envs and go on the same way."""

import io
from typing import Any

import numpy as np
import torch
from env_cases import assert_equal_runs

from rl_lightning.envs.make import EnvConfig, make_envs


def random_actions(envs, steps, seed):
    """Actions drawn before anything is played, legal or not."""
    space = envs.action_space
    space.seed(seed)
    return [space.sample() for _ in range(steps)]


def played(envs, actions):
    rows = []
    for action in actions:
        obs, *rest = envs.step(action)
        rows.append((obs.copy(), *rest))
    return rows


def through_a_file(states: Any) -> Any:
    file = io.BytesIO()
    torch.save(states, file)
    size = file.tell()
    file.seek(0)
    return torch.load(file, weights_only=True), size


def played_and_saved(envs, actions):
    """What is returned, and the whole inner state early and at the end: rounding hides no difference there."""
    early = played(envs, actions[:4])
    state = envs.snapshot()
    return early + played(envs, actions[4:]), [state, envs.snapshot()]


def assert_same(one: Any, two: Any, path: str = "") -> None:
    assert type(one) is type(two), path
    if isinstance(one, dict):
        assert list(one) == list(two), path
        for key in one:
            assert_same(one[key], two[key], f"{path}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(two), path
        for k, (left, right) in enumerate(zip(one, two, strict=True)):
            assert_same(left, right, f"{path}[{k}]")
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, two), path
    else:
        assert one == two or one != one, path


def check_exact(
    config: EnvConfig, before=60, after=300, num_envs=2, vectorization="sync", ends=1, again=None, inner=True
):
    """Restored envs repeat what the saved ones did next, bit for bit. Returns bytes per env in the file."""
    envs = make_envs(config, num_envs, vectorization)
    envs.reset(seed=11)
    played(envs, random_actions(envs, before, 1))
    states = envs.snapshot()
    assert None not in states, envs.call("unsaved")
    actions = random_actions(envs, after, 2)
    first, later = played_and_saved(envs, actions)
    envs.close()
    count = sum(int((terminated | truncated).sum()) for _, _, terminated, truncated, _ in first)
    assert count >= ends, f"{count} episodes ended"
    states, size = through_a_file(states)
    other = make_envs(config, num_envs, again or vectorization)
    other.reset(seed=12345)
    played(other, random_actions(other, 7, 3))
    assert other.restore(states) == {}
    second, again_later = played_and_saved(other, actions)
    other.close()
    assert_equal_runs(first, second)
    if inner:
        assert_same(later, again_later)
    assert np.isfinite(size)
    return size // num_envs
