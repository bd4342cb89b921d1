"""Files as D4RL lays them out, and what its own loader makes of them."""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]


def walks(lengths: list[int], width: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Smooth walks that each start anew near the origin, and where each step leads.  -> [N, O] twice"""
    obs, following = [], []
    for length in lengths:
        heading = rng.normal(size=width)
        steps = 0.1 * heading / np.linalg.norm(heading) + 0.01 * rng.normal(size=(length, width))
        path = 0.01 * rng.normal(size=width) + np.cumsum(np.vstack([np.zeros(width), steps]), 0)
        obs.append(path[:-1])
        following.append(path[1:])
    return np.concatenate(obs).astype(np.float32), np.concatenate(following).astype(np.float32)


def flags(lengths: list[int], chosen: np.ndarray) -> np.ndarray:
    """True in the last rows of the chosen episodes."""
    found = np.zeros(sum(lengths), bool)
    found[np.cumsum(lengths) - 1] = chosen
    return found


def base(lengths: list[int], width: int, actions: int, seed: int = 0) -> tuple[Arrays, np.ndarray]:
    rng = np.random.default_rng(seed)
    obs, following = walks(lengths, width, rng)
    arrays = {
        "observations": obs,
        "actions": rng.uniform(-1, 1, (len(obs), actions)).astype(np.float32),
        "rewards": rng.normal(size=len(obs)).astype(np.float32),
    }
    return arrays, following


def locomotion(with_next: bool) -> Arrays:
    """Hopper: episodes fall or reach the limit; the last one breaks off."""
    lengths = [180, 1000, 95, 1000, 40]
    arrays, following = base(lengths, 11, 3)
    arrays |= {"terminals": flags(lengths, np.array([1, 0, 1, 0, 0], bool))}
    arrays |= {"timeouts": flags(lengths, np.array([0, 1, 0, 1, 0], bool))}
    return arrays | ({"next_observations": following} if with_next else {})


def antmaze(steps: int = 700, episodes: int = 6) -> Arrays:
    """Rewards equal terminals at every step at the goal, and the recording goes on to the limit."""
    lengths = [steps] * episodes
    arrays, _ = base(lengths, 29, 8)
    away = np.tile(np.arange(steps), episodes)
    goal = (away >= 150) & (away % 200 > 20)
    arrays |= {"rewards": goal.astype(np.float32), "terminals": goal}
    return arrays | {"timeouts": flags(lengths, np.ones(episodes, bool))}


def adroit() -> Arrays:
    """Door: no terminals, 200 steps each."""
    lengths = [200] * 4
    arrays, _ = base(lengths, 39, 28)
    return arrays | {
        "terminals": np.zeros(800, bool),
        "timeouts": flags(lengths, np.ones(4, bool)),
    }


def kitchen() -> Arrays:
    """No timeouts; each demonstration ends with a terminal, rewards count finished tasks."""
    lengths = [190, 230, 205]
    arrays, _ = base(lengths, 60, 9)
    rewards = np.concatenate([np.floor(4.4 * np.arange(n) / n) for n in lengths]).astype(np.float32)
    return arrays | {"rewards": rewards, "terminals": flags(lengths, np.ones(3, bool))}


def maze2d() -> Arrays:
    """One stream that is cut where a goal was reached; no terminals."""
    lengths = [220, 301, 150, 90]
    arrays, _ = base(lengths, 4, 2)
    timeouts = flags(lengths, np.array([1, 1, 1, 0], bool))
    rewards = np.zeros(sum(lengths), np.float32)
    rewards[100:120] = 1
    return arrays | {"rewards": rewards, "terminals": np.zeros(sum(lengths), bool), "timeouts": timeouts}


def qlearning(arrays: Arrays, max_steps: int) -> Arrays:
    """D4RL's rule: rows at a time limit are skipped, and every other row leads to the following one."""
    kept, count = [], 0
    for i in range(len(arrays["rewards"]) - 1):
        limit = arrays["timeouts"][i] if "timeouts" in arrays else count == max_steps - 1
        if limit:
            count = 0
            continue
        count = 1 if arrays["terminals"][i] else count + 1
        kept.append(i)
    rows = np.array(kept)
    names = ("observations", "actions", "rewards", "terminals")
    return {key: arrays[key][rows] for key in names} | {"next_observations": arrays["observations"][rows + 1]}
