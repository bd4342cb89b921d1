"""Algorithms with two halves learn each by itself: what a hook moves, and what it leaves as it is."""

from functools import partial

import pytest
import torch
from contracts.cases import BY_NAME
from contracts.harness import bare, differing, weights

from rl_lightning.clock.phases import Phase, PhaseContext, default_hooks

MODEL, POLICY = ("model.encoder.", "model.dynamics.", "model.reward."), ("model.q.", "model.policy.")
HALVES = {
    ("ppo-discrete", "update_actor"): ("torso.", "policy."),
    ("ppo-discrete", "update_critic"): ("value_torso.", "value."),
    ("sac", "update_actor"): ("actor.", "log_alpha"),
    ("sac", "update_critic"): ("q.", "q_target."),
    ("sac-parts", "update_critic"): ("q.", "encoder.", "q_target.", "encoder_target."),
    ("sac-discrete", "update_actor"): ("torso.", "policy.", "log_alpha"),
    ("sac-discrete", "update_critic"): ("q.", "q_target."),
    ("tdmpc2", "update_world_model"): MODEL,
    ("tdmpc2", "update_controller"): (*POLICY, "q_target."),
    ("tdmpc2-episodic", "update_world_model"): (*MODEL, "model.terminated."),
    ("tdmpc", "update_world_model"): (*MODEL, "target_model."),
    ("tdmpc", "update_controller"): (*POLICY, "target_model."),
    ("dreamer-v3", "update_world_model"): ("world_model.",),
    ("dreamer-v3", "update_controller"): ("actor.", "critic.", "critic_target."),
}
COUNTERS = ("updates", "scale")


@pytest.mark.parametrize(("name", "hook"), HALVES, ids=lambda value: value)
def test_a_half_moves_itself_alone(name, hook):
    run = bare(BY_NAME[name])
    halves = HALVES[name, hook]
    run.learn(run.block())  # an actor may wait for a critic that has begun to tell its actions apart
    before = weights(run.model)
    for _ in range(3):
        for batch in run.block().batches:
            metrics = getattr(run.model, hook)(batch)
    assert all(torch.isfinite(value).all() for value in metrics.values())
    moved = {key for key in differing(before, weights(run.model)) if not key.startswith(COUNTERS)}
    others = [key for key in moved if not key.startswith(halves)]
    assert moved and not others
    for prefix in halves:
        assert any(key.startswith(prefix) for key in moved), f"{prefix} stayed"


@pytest.mark.parametrize("name", ["sac", "sac-discrete", "ppo-continuous"])
def test_halves_learn_what_the_whole_learns(name):
    """The critic's half makes the very step that the whole makes first; PPO's make its two losses."""
    whole, half = (bare(BY_NAME[name]) for _ in range(2))
    batch = whole.block().batches[0]
    half.block()
    torch.manual_seed(7)
    together = whole.model.update(batch)
    torch.manual_seed(7)
    alone = half.model.update_critic(batch)
    if name == "ppo-continuous":
        assert alone["train/value_loss"] < 1.5 * together["train/value_loss"]
        return
    assert torch.equal(together["train/critic_loss"], alone["train/critic_loss"])
    same = [key for key in weights(whole.model) if key.startswith(("q.", "q_target."))]
    one, two = weights(whole.model), weights(half.model)
    assert same and all(torch.equal(one[key], two[key]) for key in same)


def test_a_phase_without_hooks_learns_both_halves_once():
    assert default_hooks("online", ["update", "update_actor", "update_critic"]) == ["collect", "update"]
    assert default_hooks("offline", ["update_world_model"]) == ["update_world_model"]


def test_a_phase_is_known_by_its_fields():
    phase = PhaseContext(Phase("warm", "offline", horizon=5, extra={"temperature": 0.5}), 0.25)
    assert (phase.name, phase.type, phase.horizon, phase.temperature, phase.progress) == (
        "warm",
        "offline",
        5,
        0.5,
        0.25,
    )
    with pytest.raises(AttributeError, match=r"no 'temprature'.*temperature.*extra"):
        _ = phase.temprature
    assert partial(getattr, phase, "nothing", None)() is None
