"""What a sweep's YAML may say, and where its values end up."""

from __future__ import annotations

import pytest

from rl_lightning.errors import ConfigError
from rl_lightning.sweep.definition import read_definition
from rl_lightning.sweep.space import decode, encode
from rl_lightning.sweep.sweep_keys import full_key, nested, overlaid
from rl_lightning.sweep.trial_scores import history, reduced

GRID = {"base_config": "ppo/cartpole", "grid": {"model.lr": [1, 2], "data.env.id": ["a", "b", "c"]}}
SPACE = {"base_config": "x", "space": {"model.lr": {"type": "log_uniform", "low": 1e-5, "high": 1e-2}}}


def test_grid_has_all_points_in_order():
    definition = read_definition(GRID, "g")
    assert definition.trials == 6 and definition.points is not None
    assert definition.points[1] == {"model.lr": 1, "data.env.id": "b"}


def test_defaults_and_shorthands():
    definition = read_definition(
        {
            **SPACE,
            "seeds": "2-4",
            "metric": "reward",
            "pruner": "median",
            "sampler": {"name": "random", "seed": 5},
        },
        "s",
    )
    assert definition.seeds == [2, 3, 4] and definition.metric == "eval/return"
    assert definition.pruner == {"name": "median"} and definition.sampler["seed"] == 5


def space(**entry):
    return {"base_config": "x", "space": {"model.lr": entry}}


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({**GRID, "grdi": {}}, "did you mean 'grid'"),
        ({"base_config": "x"}, "either grid"),
        ({**GRID, **SPACE}, "either grid"),
        ({"grid": {"model.lr": [1]}}, "base_config"),
        ({**GRID, "trials": 5}, "all of its points"),
        ({"base_config": "x", "grid": {"model.lr": 3}}, "list of values"),
        ({"base_config": "x", "grid": {"model.lr": [1, 1]}}, "there twice"),
        ({"base_config": "x", "grid": {"lr": [1]}}, "'lr' is not a key"),
        ({"base_config": "x", "grid": {"run.name": ["a"]}}, "names its runs itself"),
        ({"base_config": "x", "grid": {"model..lr": ["a"]}}, "is not a key"),
        (
            {"base_config": "x", "grid": {f"model.a{i}": list(range(100)) for i in range(3)}},
            "1,000,000 points",
        ),
        (space(type="loguniform", low=1, high=2), "did you mean 'log_uniform'"),
        (space(type="log_uniform", low=0, high=2), "positive"),
        (space(type="uniform", low=3, high=2), "below high"),
        (space(type="int", low=0.5, high=2), "whole numbers"),
        (space(type="uniform", low="a", high=2), "must be a number"),
        (space(type="uniform", low=0, high=float("inf")), "must be a number"),
        (space(type="categorical", low=0), "has no 'low'"),
        (space(type="int", low=1, high=8, log=True, step=2), "log takes none"),
        ({**SPACE, "seeds": [1, 1]}, "seeds"),
        ({**SPACE, "seeds": "a"}, "seeds"),
        ({**SPACE, "trials": 0}, "trials"),
        ({**SPACE, "direction": "up"}, "maximize"),
        ({**SPACE, "sampler": "tpa"}, "sampler"),
        ({**SPACE, "pruner": {"name": "median", "eta": 3}}, "has no 'eta'"),
        ({**SPACE, "constraints": ["a >"]}, "condition"),
        ({**SPACE, "name": "../x"}, "not allowed"),
        ({**SPACE, "name": "x" * 60}, "48"),
        ({**SPACE, "overrides": [1]}, "key: value"),
    ],
)
def test_mistakes_are_told(entries, text):
    with pytest.raises(ConfigError, match=text):
        read_definition(entries, "s")


CONFIG = {
    "model": {
        "class_path": "PPO",
        "init_args": {"lr": 1, "network": {"class_path": "MLP", "init_args": {"hidden_dims": [8]}}},
    },
    "data": {"class_path": "OnPolicyData", "init_args": {"env": {"id": "a"}}},
}


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("model.lr", "model init_args lr"),
        ("model.init_args.lr", "model init_args lr"),
        ("model.network.hidden_dims", "model init_args network init_args hidden_dims"),
        ("data.env.id", "data init_args env id"),
        ("run.env_steps", "run env_steps"),
        ("model.class_path", "model class_path"),
        ("seed_everything", "seed_everything"),
    ],
)
def test_dotted_keys_find_their_place(key, words):
    assert full_key(CONFIG, key) == words.split()


def test_a_word_where_a_class_stands_is_another_class():
    changed = overlaid(CONFIG, nested(CONFIG, "model.network", "GRU"))
    assert changed["model"]["init_args"]["network"] == {"class_path": "GRU"}
    assert CONFIG["model"]["init_args"]["network"]["class_path"] == "MLP"
    assert overlaid(CONFIG, nested(CONFIG, "model", "SAC"))["model"] == {"class_path": "SAC"}


@pytest.mark.parametrize(
    "value", [1, 1.5, True, None, "a", "json:x", [1, 2], {"class_path": "X", "init_args": {"a": 1}}]
)
def test_choices_survive_the_study(value):
    stored = encode(value)
    assert isinstance(stored, str | int | float | bool | None) and decode(stored) == value


def test_metrics_that_are_being_written(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text('env_step,eval/return,"odd, name"\n1,5,\n2,,7\n3,nan,x\n4,6,8\n5,7', encoding="utf-8")
    found = history(path)
    assert found["env_step"] == [1, 2, 3, 4] and found["odd, name"] == [7, 8]
    assert len(found["eval/return"]) == 3
    assert history(tmp_path / "none.csv") == {}
    path.write_bytes(b"\xff\xfe,\x00\n1,2\n")
    history(path)


def test_reduced():
    assert reduced([float(i) for i in range(20)], "last10", "maximize") == 14.5
    assert reduced([3.0, 1.0, 2.0], "best", "minimize") == 1.0
    assert reduced([3.0, 1.0], "last", "maximize") == 1.0
    assert reduced([], "last", "maximize") is None and reduced([float("nan")], "last", "maximize") is None


@pytest.mark.parametrize(
    "launcher",
    [
        {"local_setup": ["touch marker"]},
        {"slurm_setup": ["touch marker"]},
        {"slurm_teardown": ["touch marker"]},
        {"slurm_srun_args": ["--task-prolog=/tmp/x"]},
        {"slurm_additional_parameters": {"wrap": "touch marker"}},
        {"slurm_comment": "x"},
        {"slurm_partition": "gpu\ntouch marker #"},
        {"slurm_account": "$(touch marker)"},
        {"slurm_qos": ["a"]},
        {"mem_gb": {"a": 1}},
    ],
)
def test_a_strangers_sweep_asks_for_resources_alone(launcher):
    with pytest.raises(ConfigError, match=f"launcher.{next(iter(launcher))}"):
        read_definition({**SPACE, "launcher": launcher}, "s")


def test_resources_are_asked_for():
    asked = {
        "cluster": "slurm",
        "slurm_partition": "gpu,long",
        "timeout_min": 720,
        "slurm_mem": "16GB",
        "mem_gb": 1.5,
    }
    assert read_definition({**SPACE, "launcher": asked}, "s").launcher == asked
