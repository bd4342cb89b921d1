"""Configs of other versions run, or are refused with what to change."""

from __future__ import annotations

import pytest

from rl_lightning.errors import ConfigError
from rl_lightning.runs.config import catalog
from rl_lightning.runs.config.config_version import KEY, VERSION, Change, migrate, stamped
from rl_lightning.runs.config.renamed_words import _words


def test_todays_config_is_left_alone():
    config = {"model": {"class_path": "PPO", "init_args": {"tau": 1}}, "run": {"env_steps": 5}}
    assert migrate(config, "x") == config
    assert migrate(stamped(config), "x") == config and next(iter(stamped(config))) == KEY


def test_a_config_of_version_1_speaks_todays_words():
    old = {
        KEY: 1,
        "model": {
            "class_path": "rl_lightning.algorithms.SAC",
            "init_args": {
                "critics": 4,
                "target_rate": 0.01,
                "gamma": 0.9,
                "network": {
                    "class_path": "RNN",
                    "init_args": {"hidden": 8, "before": {"class_path": "MLP", "init_args": {"hidden": [4]}}},
                },
            },
        },
        "data": {
            "class_path": "OnlineData",
            "init_args": {
                "update_ratio": 0.5,
                "env": {
                    "id": "X-v0",
                    "track": ["x"],
                    "transforms": [{"class_path": "Stack", "init_args": {"frames": 4}}],
                },
            },
        },
        "trainer": {
            "callbacks": [
                {
                    "class_path": "Phases",
                    "init_args": {
                        "phases": [{"collect_length": 5, "hooks": [{"name": "update", "after": 3}]}]
                    },
                }
            ]
        },
        "run": {"keep_every": 100},
    }
    before = repr(old)
    assert migrate(old, "x") == {
        "model": {
            "class_path": "rl_lightning.algorithms.SAC",
            "init_args": {
                "num_critics": 4,
                "tau": 0.01,
                "gamma": 0.9,
                "network": {
                    "class_path": "RNN",
                    "init_args": {
                        "hidden_dim": 8,
                        "obs_encoder": {"class_path": "MLP", "init_args": {"hidden_dims": [4]}},
                    },
                },
            },
        },
        "data": {
            "class_path": "OnlineData",
            "init_args": {
                "utd_ratio": 0.5,
                "env": {
                    "id": "X-v0",
                    "info_keywords": ["x"],
                    "transforms": [{"class_path": "FrameStack", "init_args": {"num_stack": 4}}],
                },
            },
        },
        "trainer": {
            "callbacks": [
                {
                    "class_path": "Phases",
                    "init_args": {
                        "phases": [{"collect_steps": 5, "hooks": [{"name": "update", "after_updates": 3}]}]
                    },
                }
            ]
        },
        "run": {"milestone_every": 100},
    }
    assert repr(old) == before, "the given one is not touched"


def test_values_and_the_stages_of_a_pipeline_too():
    stage = {"model": {"class_path": "PPO", "init_args": {"explore_in_evaluation": True, "epochs": 2}}}
    old = {
        KEY: 1,
        "stages": [
            {
                "name": "a",
                "config": stage,
                "takes": {"model.init_args.x": "b"},
                "set": {"model.init_args.clip": 0.1},
            }
        ],
    }
    (new,) = migrate(old, "x")["stages"]
    assert new["config"]["model"]["init_args"] == {"deterministic_eval": False, "n_epochs": 2}
    assert new["inputs"] == {"model.init_args.x": "b"} and new["overrides"] == {
        "model.init_args.clip_range": 0.1
    }


def test_todays_names_exist():
    """Every class and option that an old word becomes is one of today's."""
    words = _words()
    classes = {words.classes.get(name, name): new for name, new in words.options.items()}
    for name, options in classes.items():
        entry = catalog.find(name)
        if entry is not None and entry.options:
            assert {*options.values()} <= {option.name for option in entry.options} | {"policy_from"}, name
    assert len(classes) > 100


def test_what_has_no_successor_is_named_with_what_to_write():
    changes = (Change(3, "a.gone", None, "a.kept"), Change(3, "b", "c"))
    with pytest.raises(ConfigError, match=r"a.yaml: a.gone is gone .* write a.kept"):
        migrate({KEY: 2, "a": {"gone": 5}}, "a.yaml", changes, 3)
    with pytest.raises(ConfigError, match="has both"):
        migrate({KEY: 2, "b": 5, "c": 6}, "a.yaml", changes, 3)


@pytest.mark.parametrize("version", [VERSION + 1, -1, "1", True, None, 1.0])
def test_a_version_that_is_not_known_is_refused(version):
    with pytest.raises(ConfigError, match=KEY):
        migrate({KEY: version}, "a.yaml")


def test_changes_of_several_versions_follow_each_other():
    changes = (Change(3, "b", "c"), Change(2, "a", "b"))
    assert migrate({KEY: 1, "a": 5}, "x", changes, 3) == {"c": 5}
    assert migrate({KEY: 2, "b": 5}, "x", changes, 3) == {"c": 5}
    assert migrate({KEY: 3, "b": 5}, "x", changes, 3) == {"b": 5}
