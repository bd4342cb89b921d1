"""Flags that a config declares: what they set, what wins, and that a table's row is what its own file was."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

import rl_lightning
from rl_lightning.cli.flags import RUN_KEYS, config_key, normalize
from rl_lightning.cli.options import OWN_SWITCHES, OWN_VALUES
from rl_lightning.cli.own_help import own_help
from rl_lightning.errors import ConfigError
from rl_lightning.runs.config.compose import compose, find, inline, own_options, shipped
from rl_lightning.runs.config.own_options.declared import option_for
from rl_lightning.runs.config.own_options.laid import layer_of
from rl_lightning.runs.engine.fit import steps_an_env
from rl_lightning.runs.pipeline.fit_pipeline import check_stage_config, fit_pipeline, parsed_stage
from rl_lightning.runs.pipeline.plan import Job, make_plan
from rl_lightning.runs.request import Request

DECLARING = [
    name for name, path in shipped().items() if "\noptions:" in path.read_text() and path.stem == name
]
# What the files of their own said before there were tables.
FILES = {
    "gormpo/walker2d-medium-expert-v2": """
extends: gormpo/stages/pipeline
name: gormpo-walker2d-medium-expert-v2
shared: {data.dataset: d4rl/walker2d-medium-expert-v2}
stages:
  - name: policy
    overrides: {data.penalty_coef: 1.0, data.rollout_length: 1, run.eval_episodes: 100}
""",
    "dice/antmaze-medium-play-v2": """
extends: dice/stages/paper
name: dice-antmaze-medium-play-v2
shared: {data.dataset: d4rl/antmaze-medium-play-v2}
stages:
  - {name: behavior, overrides: {run.eval_episodes: 50}}
  - name: dice
    overrides:
      model.num_selection_critics: 0
      model.num_noise_samples: 32
      model.num_samples: 1
      model.candidate_filter: {class_path: SoftmaxFilter}
      data.reward_tuning: {class_path: GoalPenalty}
      run.eval_episodes: 50
      model.guidance_scale: 2.0
""",
    "mbarc/freeway": """
extends: mbarc/stages/pipeline
name: mbarc-freeway
shared: {data.env.id: ALE/Freeway-v5}
stages:
  - {name: explore, overrides: {model.max_action_repeat: 16}}
""",
}


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def plan(*names: str, **given: Any) -> list[Job]:
    return make_plan(inline(compose(names, given), find(names[0]).parent), check_stage_config)


def stage(jobs: list[Job], name: str) -> dict[str, Any]:
    return next(job.config for job in jobs if job.stage == name)


@pytest.mark.parametrize("name", FILES)
def test_a_row_is_what_its_file_was(name: str) -> None:
    Path("old.yaml").write_text(FILES[name])
    assert [asdict(job) for job in plan(name)] == [asdict(job) for job in plan("./old.yaml")]
    assert [job.hash() for job in plan(name)] == [job.hash() for job in plan("./old.yaml")]
    assert compose([name])["name"] == compose(["./old.yaml"])["name"]
    family, _, row = name.partition("/")
    option = next(each for each in own_options([family]).values() if each.rows)
    for word in (row, option.named_rows()[row]):
        assert compose([family], {option.name: word}) == compose([name])


@pytest.mark.parametrize("name", DECLARING)
def test_options_are_reached_and_their_defaults_change_nothing(name: str) -> None:
    """No word of the command's own stands before one; each value of each option makes a plan."""
    options = own_options([name])
    for option in options.values():
        assert config_key(option.name) is None and option.name not in (*OWN_VALUES, *OWN_SWITCHES, *RUN_KEYS)
        assert option.help and option.name in own_help([name], {})
        for value in option.values or option.named_rows():
            assert compose([name], {option.name: value})
        if option.default is not None:
            assert compose([name], {option.name: option.default}) == compose([name])


def test_what_is_given_wins_over_files_and_files_over_rows() -> None:
    Path("mine.yaml").write_text(
        yaml.safe_dump(
            {
                "extends": "gormpo",
                "name": "mine",
                "stages": [{"name": "policy", "overrides": {"data.penalty_coef": 3.0}}],
            }
        )
    )
    of = {"task": "hopper-medium-expert-v2"}
    policy = stage(plan("./mine.yaml", **of), "policy")["data"]["init_args"]
    assert (policy["dataset"], policy["penalty_coef"], policy["rollout_length"]) == (
        "d4rl/hopper-medium-expert-v2", 3.0, 3,
    )  # fmt: skip
    policy = stage(plan("./mine.yaml", **of, penalty_coef="2", percentile="5", penalty="linear"), "policy")
    data = policy["data"]["init_args"]
    assert data["penalty_coef"] == 2 and data["penalty"]["init_args"] == {"percentile": 5}
    assert data["penalty"]["class_path"].endswith(".LinearPenalty")
    assert compose(["./mine.yaml"], of)["name"] == "mine"


def test_a_penalty_without_density_leaves_its_stage_out() -> None:
    jobs = plan("gormpo", penalty="none", task="local/mine")
    assert [job.stage for job in jobs] == ["dynamics", "policy"]
    assert jobs[1].inputs == {"data.init_args.dynamics": "dynamics"}
    assert compose(["gormpo"], {"task": "local/mine"})["name"] == "gormpo-mine"
    assert stage(jobs, "policy")["data"]["init_args"]["penalty_coef"] == 0.5  # of no row


def test_online_rewards_have_no_stage() -> None:
    jobs = plan("mbarc", game="pong", reward_strategy="online", cycles="2")
    assert [job.key for job in jobs] == [
        "explore", "collect-1", "world-1", "policy-1", "collect-2", "world-2", "policy-2",
    ]  # fmt: skip
    head = stage(jobs, "world")["model"]["init_args"]["predictor"]["init_args"]["reward_net"]
    assert head["class_path"].endswith(".SpatialRewardNet")
    assert not any("reward_from" in key for key in jobs[3].inputs)


def test_words_of_the_originals() -> None:
    mbarc, gormpo, dice = own_options(["mbarc"]), own_options(["gormpo"]), own_options(["dice"])
    words = {"strategy": "reward_strategy", "env_name": "game", "epochs": "cycles", "ppo_lr": "ppo_lr"}
    assert {word: option_for(word, mbarc) for word in words} == words
    words = {"penalty_type": "penalty", "reward_penalty_coef": "penalty_coef", "density_model": "density"}
    assert {word: option_for(word, gormpo) for word in words} == words
    words = {"env": "task", "inference_sample": "num_samples", "s": "guidance_scale", "foobar": None}
    assert {word: option_for(word, dice) for word in words} == words


def test_a_plain_config_declares_options_too() -> None:
    Path("mine.yaml").write_text(
        "extends: ppo/cartpole\n"
        "options:\n"
        "  net:\n    help: network\n    sets: model.network\n"
        "    values: {tiny: {class_path: MLP, init_args: {hidden_dims: [8]}}}\n"
        "  task: {sets: data.env.id, default: CartPole-v1, rows: {Acro*: {model.lr: 0.5}}}\n"
    )
    config = compose(["./mine.yaml"], {"net": "tiny", "task": "Acrobot-v1"})
    assert config["model"]["init_args"]["lr"] == 0.5 and "options" not in config
    assert config["model"]["init_args"]["network"]["class_path"] == "rl_lightning.nn.mlp.MLP"
    assert config["data"]["init_args"]["env"]["id"] == "Acrobot-v1"
    assert "network (model.network)" in own_help(["./mine.yaml"], {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("options: [x]", "options maps names to"),
        ("options: {X: {sets: model.lr}}", "options.X: a name has small letters"),
        ("options: {x: {set: model.lr}}", "options.x has no 'set'; did you mean 'sets'"),
        ("options: {x: {help: y}}", "say which keys it sets"),
        ("options: {x: {sets: stages.foo.model.lr, default: 1}}\nstages: []", "there is no stage 'foo'"),
    ],
)
def test_wrong_declarations(text: str, told: str) -> None:
    Path("wrong.yaml").write_text(text if "stages:" in text else f"extends: ppo/cartpole\n{text}")
    with pytest.raises(ConfigError, match=told.replace("(", r"\(")):
        compose(["./wrong.yaml"])


def test_what_is_no_option_is_refused() -> None:
    with pytest.raises(ConfigError, match="gormpo has no option 'penlty'; did you mean 'penalty'"):
        compose(["gormpo"], {"penlty": "x"})
    with pytest.raises(ConfigError, match=r"--density takes realnvp, .* not 'real'"):
        compose(["gormpo"], {"density": "real"})


def test_seeds_may_stand_apart() -> None:
    assert normalize(["--seeds", "1", "2", "4-5", "--dry-run"]) == ["--seeds", "1,2,4-5", "--dry_run"]
    assert layer_of({}, {"threads": 2, "run.updates": 5}) == {"threads": 2, "run": {"updates": 5}}


def test_the_same_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RL_LOGS", raising=False)
    Path("mine.yaml").write_text(
        "extends: ppo/cartpole\n"
        "data: {init_args: {num_envs: 2, rollout_steps: 16}}\n"
        "run: {env_steps: 32, eval_every: 32, eval_episodes: 1}\n"
        "log: {tensorboard: false}\n"
        "options:\n"
        "  step: {help: its size, sets: model.lr}\n"
    )
    run = rl_lightning.fit("./mine.yaml", step=0.5)
    assert "lr: 0.5" in (run.folder / "config.yaml").read_text() and "--step=0.5" in run.record["command"]
    with pytest.raises(ConfigError, match="neither fit nor gormpo has 'pentalty'; did you mean 'penalty'"):
        rl_lightning.fit("gormpo", pentalty="linear")
    with pytest.raises(ConfigError, match="did you mean 'env_steps'"):
        rl_lightning.fit("ppo/cartpole", env_step=64)


def test_a_pipeline_that_cannot_be_watched_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    request = Request(render="human")
    with pytest.raises(ConfigError, match="no display here"):
        fit_pipeline(compose(["mbarc/catch"]), request, ["mbarc/catch"])
    jobs = plan("mbarc/catch")
    parsed = {
        job.stage: parsed_stage(job, {key: "none" for key in job.inputs}, request, {"": []}, {})
        for job in jobs[:5]
    }
    assert [name for name, cli in parsed.items() if steps_an_env(cli)] == ["explore", "collect"]
