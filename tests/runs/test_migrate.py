"""Configs of other versions run, or are refused with what to change."""

from __future__ import annotations

import pytest

from rl_lightning.errors import ConfigError
from rl_lightning.runs.config.config_version import KEY, VERSION, Change, migrate, stamped


def test_todays_config_is_left_alone():
    config = {"model": {"class_path": "PPO", "init_args": {"tau": 1}}, "run": {"env_steps": 5}}
    assert migrate(config, "x") == config
    assert migrate(stamped(config), "x") == config and next(iter(stamped(config))) == KEY


def test_an_old_config_is_brought_up_to_date():
    old = {
        KEY: 0, "seed": 3, "run": {"total_timesteps": 100, "eval_freq": 10},
        "model": {"class_path": "SAC", "init_args": {"learning_rate": 1e-3, "tau": 0.01, "gamma": 0.9}},
    }  # fmt: skip
    before = repr(old)
    assert migrate(old, "x") == {
        "seed_everything": 3, "run": {"env_steps": 100, "eval_every": 10},
        "model": {"class_path": "SAC", "init_args": {"lr": 1e-3, "target_rate": 0.01, "gamma": 0.9}},
    }  # fmt: skip
    assert repr(old) == before, "the given one is not touched"


def test_what_has_no_successor_is_named_with_what_to_write():
    with pytest.raises(ConfigError, match=r"a.yaml: trainer.max_steps is gone .* write run.env_steps"):
        migrate({KEY: 0, "trainer": {"max_steps": 5}}, "a.yaml")
    with pytest.raises(ConfigError, match="has both"):
        migrate({KEY: 0, "run": {"total_steps": 5, "env_steps": 6}}, "a.yaml")


@pytest.mark.parametrize("version", [VERSION + 1, -1, "1", True, None, 1.0])
def test_a_version_that_is_not_known_is_refused(version):
    with pytest.raises(ConfigError, match=KEY):
        migrate({KEY: version}, "a.yaml")


def test_changes_of_several_versions_follow_each_other():
    changes = (Change(3, "b", "c"), Change(2, "a", "b"))
    assert migrate({KEY: 1, "a": 5}, "x", changes, 3) == {"c": 5}
    assert migrate({KEY: 2, "b": 5}, "x", changes, 3) == {"c": 5}
    assert migrate({KEY: 3, "b": 5}, "x", changes, 3) == {"b": 5}
