"""Filming an episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl_lightning.rollout.collect import add_reward, reset_carry_rows, to_array


def record_episode(agent: Any, env: Any, seed: int, max_steps: int = 1000) -> tuple[list[np.ndarray], int]:
    """Frames [H, W, 3] of one episode of a vector of one env that renders, and its frames per second."""
    frames: list[np.ndarray] = []
    act, look = agent.act_fn(), agent.video_overlay()

    def film(obs: torch.Tensor, carry: Any, generator: Any, mask: Any = None) -> Any:
        if len(frames) < max_steps:
            real = np.asarray(env.render()[0], np.uint8)
            frames.append(real if look is None else side_by_side([real, *look(obs)]))
        return act(obs, carry, generator, mask)

    training = agent.training
    agent.eval()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            draw, part = agent.evaluation_draw(seed), agent.reward_carry
            _one_episode(film, agent.initial_carry(1), env, draw, seed, max_steps, part)
    finally:
        agent.train(training)
    return frames, int(env.metadata.get("render_fps") or 30)


def side_by_side(pictures: list[np.ndarray], gap: int = 4) -> np.ndarray:
    """Pictures of any size side by side, each as high as the first."""
    height = pictures[0].shape[0]
    strip = np.full((height, gap, 3), 255, np.uint8)
    parts: list[np.ndarray] = []
    for picture in pictures:
        row = np.arange(height) * picture.shape[0] // height
        column = np.arange(height * picture.shape[1] // picture.shape[0]) * picture.shape[0] // height
        parts += [picture[row][:, column], strip]
    return np.concatenate(parts[:-1], 1)


def _one_episode(
    act: Any, carry: Any, env: Any, generator: Any, seed: int, max_steps: int, reward_carry: int | None
) -> None:
    obs, infos = env.reset(seed=seed)
    for _ in range(max_steps):
        mask = torch.from_numpy(infos["action_mask"].copy()) if env.env_spec.action_mask else None
        action, carry = act(torch.from_numpy(obs.copy()), carry, generator, mask)
        obs, reward, terminated, truncated, infos = env.step(to_array(action))
        carry = add_reward(carry, reward_carry, reward)
        if terminated[0] or truncated[0]:
            return
        carry = reset_carry_rows(carry, terminated | truncated)


def write_video(frames: list[np.ndarray], path: Path, fps: int) -> Path:
    """An mp4 with sides padded to even numbers, as the codec wants them."""
    import imageio.v2 as imageio

    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = frames[0].shape[:2]
    pad = ((0, height % 2), (0, width % 2), (0, 0))
    options = {"fps": min(fps, 60), "macro_block_size": 1, "codec": "libx264"}
    writer: Any = imageio.get_writer(path, format="FFMPEG", **options)  # type: ignore[arg-type]
    with writer:
        for frame in frames:
            writer.append_data(np.pad(frame, pad))
    return path
