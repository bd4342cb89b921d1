"""How far a latent world can be trusted: it sees some rows, then dreams on with the actions that were really taken."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rl_lightning.models.imagined_windows import ImaginedWindows, squared_error, variance_of
from rl_lightning.models.rssm.rssm import LatentState
from rl_lightning.models.rssm.world_model import LatentWorld
from rl_lightning.types import Sequences

STEPS = (1, 3, 5, 8, 15)  # at which errors are told
SEEN = 8  # rows that the state is inferred from before anything is imagined
BINS = 4  # of predicted rewards, for the calibration


class OpenLoopRollout(NamedTuple):
    """B windows of L rows; the first `context` were seen, the others dreamed."""

    context: int
    true: Tensor  # [B, L, *O]
    reconstructed: Tensor  # [B, L, *O] with every observation seen
    dreamed: Tensor  # [B, L - context, *O] with none of them
    reward: Tensor  # [B, L - context] received
    dreamed_reward: Tensor
    same_episode: Tensor  # [B, L - context] bool: no new episode began since the context
    kl: float  # mean nats between posterior and prior


@torch.no_grad()
def open_loop_rollout_latent(world: LatentWorld, batch: Sequences, context: int) -> OpenLoopRollout:
    """Dreams on from row `context` of every window, taking the likeliest latents."""
    window = world.window(batch)
    observed = world.observe(window)
    latent, state = world.rssm.latent, observed.state
    kl = latent.kl(latent.dist(observed.post), latent.dist(observed.prior)).mean().item()
    here = LatentState(state.deter[context - 1], state.stoch[context - 1])
    features = []
    for action in window.action[context - 1 : -1]:
        here = world.rssm.img_step(here, action, None)
        features.append(here.feature)
    feature = torch.stack(features)
    same_episode = window.is_first[context:].long().cumsum(0) == 0
    return OpenLoopRollout(
        context,
        world.decoder.comparable(batch.obs),
        world.decoder.predict(state.feature).transpose(0, 1),
        world.decoder.predict(feature).transpose(0, 1),
        window.reward[context:].transpose(0, 1),
        world.reward_head.value(feature).transpose(0, 1),
        same_episode.transpose(0, 1),
        kl,
    )


def imagine_played(agent: Any, world: LatentWorld, data: Any, horizon: int) -> ImaginedWindows | None:
    """Windows that the agent plays now, imagined from their first rows on; None where no episode is that long."""
    rows = data.play_windows(agent, SEEN + horizon)
    if rows is None:
        return None
    device = next(world.parameters()).device
    here = rows._replace(**{key: getattr(rows, key).to(device) for key in rows._fields[:6]})
    return imagined_windows(open_loop_rollout_latent(world, here, SEEN))


def imagined_windows(rollout: OpenLoopRollout) -> ImaginedWindows:
    """The same for whoever wants to see it: pictures, or the numbers of an observation and the reward."""
    true, context = rollout.true[:, rollout.context :], rollout.context
    spread = variance_of(rollout.true)
    held = rollout.true[:, context - 1 : context].expand_as(true)
    shown, dreamed = true, rollout.dreamed
    names: tuple[str, ...] = ()
    if true.dim() != 5:
        names = (*(f"obs {n}" for n in range(true.flatten(2).shape[-1])), "reward")
        shown = torch.cat((true.flatten(2), rollout.reward.unsqueeze(-1)), -1)
        dreamed = torch.cat((rollout.dreamed.flatten(2), rollout.dreamed_reward.unsqueeze(-1)), -1)
    return ImaginedWindows(
        "the observations' variance",
        context,
        squared_error(rollout.dreamed, true, spread),
        squared_error(held, true, spread),
        rollout.reward,
        rollout.dreamed_reward,
        rollout.same_episode,
        shown,
        dreamed,
        names,
    )


def open_loop_report(rollout: OpenLoopRollout) -> dict[str, dict[str, float]]:
    """Errors of dreamed observations as fractions of their variance, rewards beside those received, and the KL."""
    true = rollout.true[:, rollout.context :]
    spread = rollout.true.flatten(0, 1).var(0, correction=0).sum().clamp_min(1e-8)
    error = (rollout.dreamed - true).square().flatten(2).sum(-1) / spread
    recon_error = (rollout.reconstructed - rollout.true).square().flatten(2).sum(-1).mean() / spread
    report = {"reconstruction_error": recon_error.item()}
    for step in STEPS:
        if step <= error.shape[1] and rollout.same_episode[:, step - 1].any():
            report[f"error_{step}"] = error[:, step - 1][rollout.same_episode[:, step - 1]].mean().item()
    dreamed, received = rollout.dreamed_reward[rollout.same_episode], rollout.reward[rollout.same_episode]
    return {
        "open_loop": report | {"kl": rollout.kl, "windows": float(len(true))},
        "reward": reward_calibration(dreamed, received),
    }


def reward_calibration(dreamed: Tensor, received: Tensor) -> dict[str, float]:
    """Means, correlation, and the mean gap between both in bins of equally many predictions."""
    if not len(dreamed):
        return {}
    order = dreamed.argsort()
    bins = [(dreamed[part].mean() - received[part].mean()).abs() for part in order.chunk(BINS)]
    centred, other = dreamed - dreamed.mean(), received - received.mean()
    scale = (centred.square().mean() * other.square().mean()).sqrt()
    metrics = {
        "real_return": received.mean().item(),
        "predicted": dreamed.mean().item(),
        "calibration_gap": torch.stack(bins).mean().item(),
    }
    if scale > 1e-8:
        metrics["correlation"] = ((centred * other).mean() / scale).item()
    return metrics
