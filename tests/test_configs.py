"""Every shipped config parses and builds, one of each family trains, and every fragment fits on something."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from generated_data import write_rows

from rl_lightning.cli import main
from rl_lightning.datasets.atari100k import GAMES
from rl_lightning.errors import ConfigError
from rl_lightning.runs.config import catalog
from rl_lightning.runs.config.build import RLCLI
from rl_lightning.runs.config.compose import compose, own_options, shipped
from rl_lightning.runs.config.compose import inline as inline_stages
from rl_lightning.runs.config.parsing import parse_config
from rl_lightning.runs.engine import throughput_probe
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.run_folder import Run

FOLDER = Path(__file__).parents[1] / "configs"


FRAGMENTS = ("buffer", "env", "network", "overlay")
SHIPPED = shipped()  # with the rows of tables, by the file that holds the table
ALL = list(SHIPPED)
SWEEPS = [name for name in ALL if name.startswith("sweep/")]  # tested with the sweeps
NAMES = [name for name in ALL if name not in SWEEPS]


def is_pipeline(name: str) -> bool:
    """A config with stages of its own, or of what it extends."""
    text = SHIPPED[name].read_text()
    parents = re.search(r"^extends: \[?([^\]\n]*)", text, re.M)
    return "\nstages:" in text or any(map(is_pipeline, parents[1].split(", ") if parents else []))


PIPELINES = [name for name in NAMES if is_pipeline(name)]
# Stages that take another's artifact: they are built in the pipelines they belong to.
TAKING = [name for name in NAMES if name.startswith("fqe/")]
STAGES = [name for name in NAMES if "/stages/" in name and name not in PIPELINES]
WHOLE = [
    name
    for name in NAMES
    if name.split("/")[0] not in FRAGMENTS and name not in (*PIPELINES, *STAGES, *TAKING)
]
PARTS = [name for name in NAMES if name.split("/")[0] in FRAGMENTS]

# One of each family trains in the default suite: each algorithm, and PPO also with memory and from pixels.
TRAINED = (
    "ppo/cartpole",
    "ppo/recall",
    "ppo/catch",
    "dqn/cartpole",
    "qrdqn/cartpole",
    "sac/pendulum",
    "sac/cartpole",
    "random/cartpole",
    "bc/hopper-medium",
    "td3/pendulum",
    "td3_bc/hopper-medium",
    "iql/hopper-medium",
    "bcq/hopper-medium",
    "decision_transformer/cartpole-replay",
    "diffusion_policy/detour",
    "diffusion_policy/detour-pixels",
    "dreamer_v1/frozenlake",
    "dreamer_v2/frozenlake",
    "dreamer_v3/frozenlake",
    "dreamer_v3/phases",
    "planet/pendulum",
    "tdmpc/pendulum",
    "tdmpc2/pendulum",
)
# Pipelines that train here, every stage cut to a few updates: one of a family.
RUN_WHOLE = ("gormpo/demo", "gormpo/compare-halfcheetah-medium", "dice/demo")
# What the default suite looks at for all: what it trains, what is unlike the rest, and one of every folder.
UNLIKE = (
    "mbarc/demo",
    "network/nature-cnn",
    "overlay/dreamer-1m",
    "overlay/dreamer-12m-pixels",
    "iql",
    "overlay/tdmpc2-48m",
    "tdmpc2/states",
)


def swept(names: list[str]) -> list[Any]:
    """All of them with `-m slow`, one of every folder and the unlike ones without."""
    by_cost = sorted(names, key=lambda name: not name.endswith("/demo"))  # a demo is small
    first = {name.split("/")[0]: name for name in reversed(by_cost) if "/" in name}.values()
    shown = {*first, *TRAINED, *RUN_WHOLE, *UNLIKE}
    return [pytest.param(name, marks=[] if name in shown else pytest.mark.slow) for name in names]


# Anomaly detection is what --debug costs: fewer of its steps show as much.
SHORT = ["--debug", "--env_steps", "80", "--eval_every", "40", "--log.tensorboard", "false"]
OFFLINE = [
    "--debug",
    "--updates",
    "4",
    "--eval_every",
    "2",
    "--eval_episodes",
    "1",
    "--log.tensorboard",
    "false",
]
OFFLINE += ["--data.batch_size", "16"]
# A GRU is many small steps.
SHORTER = {"ppo/recall": ["--env_steps", "32", "--data.rollout_steps", "8", "--model.n_epochs", "1"]}

# A plan's episodes are of 200 steps and more: what is evaluated is what it costs.
for _name in (
    "tdmpc",
    "tdmpc/pendulum",
    "tdmpc2/pendulum",
    "tdmpc2/halfcheetah",
    "tdmpc2/states",
    "tdmpc2/pixels",
):
    SHORTER[_name] = [
        "--data.learning_starts",
        "40",
        "--data.pretrain",
        "2",
        "--data.env.max_episode_steps",
        "30",
    ]

# World models: as few rows as make a window.
WINDOWS = [
    "--data.batch_size",
    "2",
    "--data.sequence_length",
    "4",
    "--data.learning_starts",
    "48",
    "--data.train_every",
    "16",
    "--data.pretrain",
    "1",
    "--data.train_ratio",
    "1",
    "--data.num_envs",
    "1",
    "--data.buffer.init_args.capacity",
    "500",
    "--env_steps",
    "96",
    "--eval_episodes",
    "1",
]
PLANS = [
    "--model.planner.init_args.num_samples",
    "8",
    "--model.planner.init_args.num_elites",
    "2",
    "--model.planner.init_args.iterations",
    "1",
    "--model.planner.init_args.horizon",
    "2",
]
DREAMS = ("dreamer_", "planet")

# What a fragment is laid over, and what else it then needs; the rest goes onto the default of its folder.
TDMPC2_SIZES = ("1m", "5m", "19m", "48m", "317m")
DREAMER_SIZES = ("1m", "12m", "25m", "50m", "100m", "200m", "400m")
BASES: dict[str, list[str]] = {
    "buffer": ["dqn/cartpole"],
    "env": ["ppo/pong"],
    "network": ["ppo/cartpole"],
    "overlay": ["ppo/cartpole"],
    "env/dmc-pixels": ["sac/cartpole-balance", "network/nature-cnn"],
    "env/image": ["ppo/catch", "network/nature-cnn"],
    "env/image-gray": ["ppo/catch", "network/nature-cnn"],
    "env/noisy": ["sac/pendulum"],
    **{f"overlay/tdmpc2-{size}": ["tdmpc2/states"] for size in TDMPC2_SIZES},
    **{f"overlay/dreamer-{size}": ["dreamer_v3/walker-walk"] for size in DREAMER_SIZES},
    **{f"overlay/dreamer-{size}-pixels": ["dreamer_v3/walker-walk-pixels"] for size in DREAMER_SIZES},
    "network/lstm-cnn": ["ppo/pong"],
    "network/nature-cnn": ["ppo/pong"],
    "network/simba": ["td3/pendulum"],
    "network/small-cnn": ["ppo/catch"],
}


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RL_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(throughput_probe, "SECONDS", 0.01)
    for name in ("RL_LOGS", "RL_RUN_DIR", "LOCAL_RANK"):
        monkeypatch.setenv(name, "")  # so that what a run sets is undone after it
        monkeypatch.delenv(name)


DEBUG_SECONDS = 10.0  # of CPU, after imports


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE + PIPELINES)
def test_debug_takes_seconds(name: str, tmp_path: Path) -> None:
    """Every shipped config, in a fork so that each is measured alone; frames in software take what they take."""
    from resume.support import fork

    supply(name)
    log = tmp_path / "log.txt"
    pid = fork(["fit", "--config", name, "--debug", "--threads", "1", "--name", "d"], log)
    _, status, used = os.wait4(pid, 0)
    text = log.read_text()
    if "off-screen OpenGL" in text or "is not installed" in text:
        pytest.skip(text.splitlines()[-1])
    assert os.waitstatus_to_exitcode(status) == 0, text
    assert used.ru_utime + used.ru_stime < DEBUG_SECONDS, text
    assert "were finite" in text and "profiler_st" not in text


def supply(name: str) -> bool:
    """Generated rows in place of every data set that the config names; whether there are any."""
    sets = set(re.findall(r"(?:local|d4rl)/[a-z0-9-]+", yaml.safe_dump(inline(compose([name]), FOLDER))))
    for each in sets:
        write_rows(each)
    return bool(sets)


def inline(config: dict[str, Any], base: Path) -> dict[str, Any]:
    return inline_stages(config, base) if "stages" in config else config


def parsed(*names: str) -> RLCLI:
    return parse_config(compose(names), Request())


def built(*names: str) -> RLCLI:
    """Data and model, with weights that take no memory."""
    cli = parsed(*names)
    cli.build(meta=True)
    return cli


def base_of(fragment: str) -> list[str]:
    return BASES.get(fragment) or BASES[fragment.split("/")[0]]


@pytest.mark.parametrize("name", [*WHOLE, *(name for name in PARTS if name.startswith("overlay/"))])
def test_header_says_what_it_is_needs_and_takes(name):
    first = SHIPPED[name].read_text().splitlines()[0]
    assert first.startswith("# ")
    assert len(first.split(" · ")) == 3, "# what · needs · how long here"


def artifacts_asked_of(config: dict[str, Any]) -> list[str]:
    """Artifacts that the model and the data need and a config does not name."""
    asked = []
    for part in ("model", "data"):
        section = config.get(part) or {}
        entry = catalog.find(str(section.get("class_path")))
        asked += [
            f"{part}.{option.name}"
            for option in (catalog.all_options(entry) if entry else [])
            if option.type == "Artifact"
            and option.default is None
            and option.name not in section.get("init_args", {})
        ]
    return asked


def test_a_stage_alone_says_which_artifact_it_needs():
    needy = {name: asked for name in [*STAGES, *TAKING] if (asked := artifacts_asked_of(compose([name])))}
    assert {"dice/stages/guidance", "fqe/hopper-medium", "mbarc/stages/reward"} <= needy.keys()
    for name in needy:
        with pytest.raises(ConfigError, match=r"needs (model|data)\.[\w.]+ \(.+\): --\S+ RUN"):
            parsed(name)


@pytest.mark.parametrize("name", swept(PIPELINES))
def test_pipeline_shows_every_stage(name, capsys):
    supply(name)
    assert main(["fit", "--config", name, "--dry_run"]) == 0
    shown = capsys.readouterr().out
    for stage in compose([name])["stages"]:
        assert stage.get("skip") or f"\n{stage['name']} " in shown


@pytest.mark.parametrize("name", swept(WHOLE))
def test_config_builds(name):
    supply(name)
    cli = built(name)
    run = cli.config_init.run
    assert run.env_steps or run.updates
    assert run.eval_every and run.eval_every <= (run.env_steps or run.updates)
    assert any(weight.numel() for weight in cli.model.parameters()) or "random" in name


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in TRAINED else pytest.mark.slow) for n in WHOLE]
)
def test_config_trains(name, tmp_path, capsys):
    short = OFFLINE if supply(name) else [*SHORT, *WINDOWS] if name.startswith(DREAMS) else SHORT
    short = [*short, *PLANS] if name.startswith("planet") else short
    code = main(["fit", "--config", name, "--name", "try", *short, *SHORTER.get(name, [])])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    run = tmp_path / "lightning_logs" / "try"
    assert (run / "config.yaml").is_file() and Run(run).checkpoint("last").exists()
    assert "eval/return" in (run / "metrics.csv").read_text()
    if short is OFFLINE:  # the resolved config, with all its nulls, is read again
        assert main(["resume", "try", "--updates", "6"]) == 0
        assert main(["test", "try", "--episodes", "1"]) == 0
        assert (tmp_path / "lightning_logs" / "results.csv").is_file()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[] if n in RUN_WHOLE else pytest.mark.slow)
        for n in PIPELINES
        if n.startswith(("gormpo/", "dice/"))
    ],
)
def test_pipeline_of_models_and_policies_trains(name, tmp_path, capsys):
    supply(name)
    small = [
        f"--stages.{s}.data.rollout_batch_size=8"
        for s in ("policy", "mbpo", "mopo", "gormpo")
        if has_stage(name, s)
    ]
    if name.startswith("dice/"):
        small += [f"--stages.{s}.data.batch_size=16" for s in ("behavior", "dice")]
        small += ["--stages.dice.model.num_samples=2", "--stages.dice.model.sampler.num_inference_steps=2"]
        small += [
            "--stages.behavior.model.sampler=DPMSolver",
            "--stages.behavior.model.sampler.num_inference_steps=2",
        ]
    flags = ["--updates", "4", "--eval_every", "2", "--eval_episodes", "1", "--log.tensorboard", "false"]
    code = main(["fit", "--config", name, "--name", "try", *flags, *small])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    for stage in compose([name])["stages"]:
        assert (tmp_path / "lightning_logs" / "try" / stage["name"] / "artifact" / "artifact.json").is_file()


def has_stage(name: str, stage: str) -> bool:
    return any(each["name"] == stage for each in compose([name])["stages"])


@pytest.mark.parametrize("fragment", swept(PARTS))
def test_fragment_fits_its_base(fragment):
    cli = built(*base_of(fragment), fragment)
    wanted = compose([fragment])
    assert covers(cli.plain(), wanted), f"{fragment} is not in the resolved config"


def covers(whole: Any, part: Any) -> bool:
    """Whether everything that `part` says is in `whole`; a class may be written by its short or its full name."""
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(covers, whole, part))
    if not isinstance(part, dict):
        return bool(whole == part)
    if not isinstance(whole, dict):
        return False
    if "init_args" in whole and not {"class_path", "init_args"} & set(part):
        return covers(whole["init_args"], part)  # a fragment need not name the only class there is
    return all(
        key in whole and (same_class if key == "class_path" else covers)(whole[key], item)
        for key, item in part.items()
    )


def same_class(whole: str, part: str) -> bool:
    return whole.rpartition(".")[2] == part.rpartition(".")[2]


def test_bases_name_what_is_shipped():
    named = {name for names in BASES.values() for name in names} | {key for key in BASES if "/" in key}
    assert named | set(TRAINED) <= set(NAMES)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[] if n == "world_models/dodge" else pytest.mark.slow)
        for n in PIPELINES
        if n.startswith("world_models/")
    ],
)
def test_pipeline_of_world_models_trains(name, tmp_path, capsys):
    """Every stage in a few updates, resumed where it was left and played at the end."""
    if "carracing" in name:
        pytest.importorskip("Box2D")
    few = {
        "collect.run.env_steps": 300,
        "collect.data.steps_per_block": 60,
        "vision.run.updates": 3,
        "memory.run.updates": 3,
        "memory.data.sequence_length": 8,
        "controller.run.updates": 2,
        "controller.model.strategy.popsize": 4,
        "controller.model.reevaluate_rollouts": 2,
        "controller.data.fitness.num_rollouts": 1,
    }
    flags = [f"--stages.{key}={value}" for key, value in few.items()]
    flags += ["--eval_every", "2", "--eval_episodes", "1", "--log.tensorboard", "false"]
    if "carracing" in name:  # an episode of few steps
        flags += [
            f"--stages.{s}.data.env.max_episode_steps=40"
            for s in ("collect", "vision", "memory", "controller")
        ]
        flags += ["--stages.controller.data.fitness.num_workers=1", "--stages.collect.data.num_envs=1"]
    code = main(["fit", "--config", name, "--name", "try", *flags])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    run = tmp_path / "lightning_logs" / "try"
    for stage in ("collect", "vision", "memory", "controller"):
        assert (run / stage / "artifact" / "artifact.json").is_file()
    assert "eval/return" in (run / "controller" / "metrics.csv").read_text()


D4RL = [name for name in PIPELINES if re.search(r"-v2$", name) and name.startswith(("gormpo/", "dice/"))]


@pytest.mark.parametrize("name", D4RL)
def test_parity_configs_are_the_originals(name):
    """GORMPO's penalty is tanh(0.1 (T - log p)) in nats; Diffusion-DICE has two learning rates and no schedule."""
    stages = {each["name"]: each for each in inline_stages(compose([name]), FOLDER)["stages"]}
    text = yaml.safe_dump(stages)
    assert "threads: 1" not in text
    if name.startswith("gormpo/"):
        penalty = stages["policy"]["config"]["data"]["init_args"]["penalty"]
        assert same_class(penalty["class_path"], "TanhPenalty")
        assert penalty["init_args"] == {"score_unit": "nats", "slope": 0.1}
        assert stages["policy"]["config"]["model"]["init_args"]["log_std_init"] == 0.0
    else:
        model = stages["dice"]["config"]["model"]["init_args"]
        assert (model["lr"], model["guide_lr"]) == (3e-4, 3e-4) and "lr_schedule" not in model
        assert stages["dice"]["config"]["run"]["milestone_every"] == 100_000


def test_games_are_a_table():
    """All of Atari 100k, and the sweep names each of them."""
    games = own_options(["mbarc"])["game"]
    assert list(games.rows) == sorted(GAMES)
    swept = yaml.safe_load((FOLDER / "sweep" / "atari100k.yaml").read_text())["grid"]["config"]
    assert swept == [f"mbarc/{slug}" for slug in games.named_rows()]


TINY = {
    "explore": ["run.env_steps=128"],
    "collect": ["run.env_steps=64"],
    "world": ["run.updates=2", "run.eval_every=2", "data.batch_size=2", "model.eval_rows=8"],
    "reward": ["run.updates=2", "run.eval_every=2", "model.eval_rows=20"],
    "policy": [
        "run.updates=1",
        "run.eval_every=1",
        "run.eval_episodes=1",
        "data.num_envs=2",
        "data.rollout_steps=4",
    ],
}


def test_pipeline_of_mbarc_trains_and_is_played_in_the_dream(tmp_path, capsys):
    """The demo in all its cycles, each stage cut short; then the policy plays the real game and the dream."""
    flags = [f"--stages.{stage}.{flag}" for stage, given in TINY.items() for flag in given]
    flags += [
        "--stages.explore.data.num_envs=2",
        "--stages.collect.data.num_envs=2",
        "--log.tensorboard=false",
    ]
    film = (
        "--stages.world.trainer.callbacks="
        "[{class_path: FramePredictionVideo, init_args: {every: 2, sequence_length: 4}}]"
    )
    assert main(["fit", "--config", "mbarc/demo", "--name", "try", *flags, film]) == 0, (
        capsys.readouterr().err
    )
    run = tmp_path / "lightning_logs" / "try"
    assert list((run / "world-1" / "videos").glob("dream-*.mp4"))
    assert not (run / "explore-1").exists() and (run / "policy-2" / "artifact" / "artifact.json").is_file()
    for where in ("real", "model"):
        code = main(
            ["play", str(run / "policy-2"), "--episodes", "2", "--data.eval_env", where, "--no_video"]
        )
        assert code == 0, capsys.readouterr().err
    assert main(["test", str(run / "world-2")]) == 0 and "open_loop" in capsys.readouterr().out


def test_pipeline_of_control_through_an_ensemble_plays(tmp_path, capsys):
    name = "mpc/halfcheetah-medium"
    supply(name)
    flags = ["--updates", "2", "--eval_every", "1", "--eval_episodes", "1", "--log.tensorboard", "false"]
    flags += ["--stages.mpc.model.planner.horizon=2", "--stages.mpc.model.planner.num_samples=40"]
    flags += ["--stages.mpc.model.planner.iterations=1", "--stages.mpc.data.env.max_episode_steps=5"]
    flags += ["--stages.mpc.data.env.id=HalfCheetah-v5"]
    code = main(["fit", "--config", name, "--name", "try", *flags])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert "eval/return" in (tmp_path / "lightning_logs" / "try" / "mpc" / "metrics.csv").read_text()
