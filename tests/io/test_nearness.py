"""A suggestion is near, or there is none."""

import pytest

from rl_lightning.envs.registry import nearest as nearest_env
from rl_lightning.io.nearness import nearest, share_an_end


@pytest.mark.parametrize(
    ("word", "choices", "best"),
    [
        ("lrr", ["lr", "gamma"], "lr"),
        ("env_stepz", ["env_steps", "eval_every"], "env_steps"),
        ("hiden", ["hidden_dims", "activation"], "hidden_dims"),
        ("CARTPOLE", ["dqn/pendulum", "ppo/cartpole"], "ppo/cartpole"),
        ("ppo/cartpol", ["ppo/cartpole", "dqn/cartpole"], "ppo/cartpole"),
        ("wolrd", ["world", "policy"], "world"),
    ],
)
def test_typing_errors_are_seen_through(word: str, choices: list[str], best: str) -> None:
    assert nearest(word, choices)[0] == best


@pytest.mark.parametrize(
    ("word", "choices"),
    [
        ("q_target", ["target_kl"]),
        ("learning_rate", ["target_rate", "ema_rate", "critic_lr"]),
        ("n_steps", ["n_epochs", "eval_max_steps"]),
        ("bogus", ["config", "name", "tags"]),
        ("zzz", ["cartpole"]),
        ("lr", ["clip_range", "num_envs"]),
    ],
)
def test_nothing_is_said_where_nothing_is_near(word: str, choices: list[str]) -> None:
    assert nearest(word, choices) == []


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("FooBar-v9", None),
        ("CartPol-v1", "CartPole-v1"),
        ("Pooyann-v4", "Pooyan-v4"),
        ("Hopper-v9", "Hopper-v5"),
    ],
)
def test_ids_of_envs_are_compared_without_their_versions(wrong: str, right: str | None) -> None:
    assert nearest_env(wrong, ["Pooyan-v0", "Pooyan-v4", "CartPole-v1", "Hopper-v5", "FourRooms-v9"]) == right


def test_two_names_share_an_end() -> None:
    assert share_an_end("cartpol", "cartpole") and share_an_end("xopper", "hopper")
    assert not share_an_end("foobar", "pooyan")
