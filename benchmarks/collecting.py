"""Collecting with a random policy, against the env's own stepping with actions drawn beforehand.

    python collecting.py cartpole|hopper|atari|atari-native full|quick

Prints the share of our vector env's own rate, and of Gymnasium's SyncVectorEnv where it can make the same env.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import ours
import torch

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.wrappers.transforms import AtariPreprocessing
from rl_lightning.rollout.collect import Collector

CASES: dict[str, tuple[EnvConfig, int, str]] = {
    "cartpole": (EnvConfig(id="CartPole-v1"), 8, "sync"),
    "hopper": (EnvConfig(id="Hopper-v5"), 8, "sync"),
    "atari": (EnvConfig(id="ALE/Pong-v5", transforms=[AtariPreprocessing()]), 8, "sync"),
    "atari-native": (EnvConfig(id="ALE/Pong-v5", transforms=[AtariPreprocessing()]), 8, "native"),
}
STEPS = {"cartpole": 512, "hopper": 128, "atari": 32, "atari-native": 128}  # vector steps of one stretch


def stepper(envs: Any, steps: int) -> Callable[[], None]:
    """Plays `steps` steps with the same drawn actions each time."""
    envs.reset(seed=0)
    envs.action_space.seed(0)
    actions = [envs.action_space.sample() for _ in range(steps)]

    def play() -> None:
        for action in actions:
            envs.step(action)

    return play


def clock(play: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    play()
    return time.perf_counter() - begin


def main() -> None:
    ours.quiet()
    case, size = sys.argv[1:]
    (config, num_envs, kind), steps = CASES[case], STEPS[case]
    collector = Collector(make_envs(config, num_envs, kind), 0)
    act, explore = random_actor(collector.spec), torch.Generator().manual_seed(0)
    contenders: list[Callable[[], Any]] = [
        lambda: collector.collect(act, steps, explore),
        stepper(make_envs(config, num_envs, kind), steps),
    ]
    if not config.transforms:
        mode = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
        plain = gymnasium.make_vec(config.id, num_envs, vectorization_mode="sync", vector_kwargs=mode)
        contenders.append(stepper(plain, steps))
    for play in contenders:
        play()
    rounds = [[clock(play) for play in contenders] for _ in range(3 if size == "quick" else 15)]
    ours_time, *others = zip(*rounds, strict=True)
    # each round's stretches lie side by side in time, so that a change in the machine's pace cancels
    shares = [statistics.median(o / t for o, t in zip(other, ours_time, strict=True)) for other in others]
    rate = steps * num_envs / statistics.median(ours_time)
    print(json.dumps({"rate": rate, "own": shares[0], "gymnasium": shares[1] if len(shares) > 1 else None}))


if __name__ == "__main__":
    main()
