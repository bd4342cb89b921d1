"""What is laid over a pipeline reaches the stages that have it, or is refused; and what an artifact is called."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from resume.support import PPO, Rl
from runs.pipeline.support import REPLAY, SHORT, TRAIN, TUNE, pipeline

from rl_lightning.errors import ConfigError
from rl_lightning.runs.config.compose import compose
from rl_lightning.runs.pipeline.plan import make_plan
from rl_lightning.runs.pipeline.run_stages import outside_artifact


def plan(*names: str) -> dict[str, dict[str, Any]]:
    def load(name: str) -> dict[str, Any]:
        raise AssertionError(name)

    return {job.stage: job.config for job in make_plan(compose(names), load)}


def overlay(folder: Path, **config: Any) -> str:
    path = folder / "over.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_an_overlay_reaches_the_stages_that_have_its_keys_and_beats_their_overrides(tmp_path: Path) -> None:
    path = pipeline(tmp_path, {**TRAIN, "overrides": {"trainer.precision": "32"}}, REPLAY)
    laid = overlay(
        tmp_path,
        trainer={"precision": "bf16-mixed"},
        data={"init_args": {"batch_size": 4, "env": {"kwargs": {}}}},
    )
    stages = plan(path, laid)
    assert [stages[name]["trainer"]["precision"] for name in ("train", "replay")] == ["bf16-mixed"] * 2
    assert "batch_size" not in stages["train"]["data"]["init_args"]  # OnPolicyData has none
    assert stages["replay"]["data"]["init_args"]["batch_size"] == 4
    assert stages["train"]["data"]["init_args"]["env"] == {"id": "CartPole-v1", "kwargs": {}}


def test_keys_at_the_top_lie_below_a_stages_own(tmp_path: Path) -> None:
    own = {**TRAIN, "overrides": {"log.every": 5}}
    stages = plan(pipeline(tmp_path, own, REPLAY, log={"every": 7}))
    assert [stages[name]["log"]["every"] for name in ("train", "replay")] == [5, 7]


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({"data": {"init_args": {"rollout_lenth": 3}}}, "no stage has data.rollout_lenth"),
        ({"model": {"class_path": "SAC"}}, "say which stage of the pipeline: --stages.replay.model"),
        ({"ckpt_path": "run"}, "say which stage"),
    ],
)
def test_what_no_stage_has_is_refused(tmp_path: Path, layer: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plan(pipeline(tmp_path, TRAIN, REPLAY), overlay(tmp_path, **layer))


def test_flags_go_where_they_belong_and_say_so(logs: Path, tmp_path: Path, rl: Rl) -> None:
    path = pipeline(tmp_path, TRAIN, REPLAY)
    shown = rl("fit", "--config", path, "--print_config", "--data.rollout_steps", "4")
    assert shown.code == 0 and shown.out.count("rollout_steps: 4\n") == 1
    assert "data.rollout_steps goes to train, not to replay" in shown.err
    for flag, value, words in (
        ("--data.rolout_steps", "4", "did you mean --stages.train.data.rollout_steps VALUE?"),
        ("--model", "SAC", "--stages.replay.model"),
        ("--model.total_timesteps", "4", "no stage has model.total_timesteps"),
    ):
        refused = rl("fit", "--config", path, "--print_config", flag, value)
        assert refused.code == 2 and words in refused.err, refused.err


def test_env_steps_are_refused_where_none_are_taken(logs: Path, rl: Rl) -> None:
    refused = rl("fit", "--config", "iql/hopper-medium", "--env_steps", "100", "--print_config")
    assert refused.code == 2 and "--updates N" in refused.err
    refused = rl("fit", "--config", "gormpo/demo", "--env_steps", "100", "--print_config")
    assert refused.code == 2 and "give --updates N" in refused.err
    refused = rl("fit", "--config", "gormpo/demo", "--stages.mbpo.model.lrr", "3")
    assert refused.code == 2 and "stage mbpo: SAC has no option 'lrr'; did you mean 'lr'?" in refused.err
    mixed = rl("fit", "--config", "world_models/demo", "--env_steps", "100", "--print_config")
    assert mixed.code == 0 and mixed.out.count("env_steps: 100\n") == 1 and "goes to collect" in mixed.err


def test_a_pipeline_without_a_name_takes_the_next_number(logs: Path, tmp_path: Path, rl: Rl) -> None:
    path = pipeline(tmp_path, TRAIN, run={}, name="tiny")
    for seed in ("0", "1"):
        assert rl("fit", "--config", path, "--seed", seed).code == 0
    assert sorted(folder.name for folder in logs.iterdir()) == ["tiny-1", "tiny-2"]
    again = rl("fit", "--config", path, "--from", "train")
    assert again.code == 2 and "rl resume tiny-2 --from train" in again.err


def test_inputs_are_taken_away_and_stages_left_out(tmp_path: Path) -> None:
    alone = {**TUNE, "inputs": {"ckpt_path": None}, "overrides": {}}
    jobs = make_plan(compose([pipeline(tmp_path, {**TRAIN, "skip": True}, alone)]), lambda name: {})
    assert [(job.key, job.inputs) for job in jobs] == [("tune", {})]
    with pytest.raises(ConfigError, match=r"'train', which is skipped.*--stages.tune.inputs.ckpt_path"):
        make_plan(compose([pipeline(tmp_path, {**TRAIN, "skip": True}, TUNE)]), lambda name: {})


def test_an_artifact_has_one_name_everywhere(logs: Path, tmp_path: Path, rl: Rl) -> None:
    """A stage fitted alone: by its name, its folder, the folder of a checkpoint and a file."""
    path = pipeline(tmp_path, {**TRAIN, "skip": True}, TUNE)
    config = {**PPO, "run": {**SHORT, "name": "alone"}}
    (tmp_path / "alone.yaml").write_text(yaml.safe_dump(config))
    assert rl("fit", "--config", "./alone.yaml").code == 0
    (generation, *_) = (logs / "alone" / "checkpoints").glob("last-*")
    names = ("alone", str(logs / "alone"), str(generation), str(logs / "alone/checkpoints/best.ckpt"))
    for number, name in enumerate(names):
        done = rl("fit", "--config", path, "--name", f"p{number}", "--stages.tune.inputs.ckpt_path", name)
        assert done.code == 0, done.err
    done = rl("fit", "--config", path, "--name", "next", "--stages.tune.inputs.ckpt_path", "p0/tune")
    assert done.code == 0, done.err
    missing = rl("fit", "--config", path, "--name", "no", "--stages.tune.inputs.ckpt_path", "p0/tun")
    assert missing.code == 4 and "neither a path nor a run" in missing.err and not (logs / "no").exists()


def test_a_run_called_like_the_stage_that_is_left_out(logs: Path, tmp_path: Path, rl: Rl) -> None:
    path = pipeline(tmp_path, TRAIN, TUNE)
    config = {**PPO, "run": {**SHORT, "name": "train"}}
    (tmp_path / "alone.yaml").write_text(yaml.safe_dump(config))
    assert rl("fit", "--config", "./alone.yaml").code == 0
    refused = rl("fit", "--config", path, "--stages.train.skip", "true")
    assert refused.code == 2 and "which is skipped" in refused.err, "nobody named the run"
    named = ("--stages.train.skip", "true", "--stages.tune.inputs.ckpt_path", "train")
    done = rl("fit", "--config", path, *named)
    assert done.code == 0, done.err


def test_of_another_pipeline_the_artifact_that_fits_is_taken(tmp_path: Path, logs: Path) -> None:
    stages = {"dynamics": {"dynamics": {}}, "policy": {"policy": {}}}
    for stage, exports in stages.items():
        (logs / "other" / stage / "artifact").mkdir(parents=True)
        about = {"exports": exports}
        (logs / "other" / stage / "artifact" / "artifact.json").write_text(json.dumps(about))
    (logs / "other" / "pipeline.json").write_text(json.dumps({"jobs": {stage: {} for stage in stages}}))
    for dotted in ("data.init_args.dynamics", "model.init_args.init_policy", "model.init_args.policy_from"):
        stage = "dynamics" if "dynamics" in dotted else "policy"
        assert outside_artifact("other", dotted).path == logs / "other" / stage / "artifact"


def test_what_a_stage_takes_is_named_before_anything_runs(rl: Rl, logs: Path) -> None:
    alone = rl("fit", "--config", "fqe/hopper-medium")
    assert alone.code == 2 and "needs model.policy_from" in alone.err
    taken_away = rl("fit", "--config", "gormpo/demo", "--stages.mbpo.inputs.data.dynamics", "null")
    assert taken_away.code == 2 and "--stages.mbpo.inputs.data.dynamics RUN" in taken_away.err
    assert not any(logs.iterdir())
