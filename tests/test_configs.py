"""Every shipped config parses and builds, one of each family trains, and every fragment fits on something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rl_lightning.cli import main
from rl_lightning.cli.compose import compose
from rl_lightning.cli.fit import parse_config
from rl_lightning.cli.flags import parse
from rl_lightning.cli.lightning import RLCLI
from rl_lightning.experiments.runs import Run

FOLDER = Path(__file__).parents[1] / "configs"
FRAGMENTS = ("buffer", "env", "network", "overlay")
NAMES = sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml"))
PIPELINES = [name for name in NAMES if "\nstages:" in (FOLDER / f"{name}.yaml").read_text()]
WHOLE = [name for name in NAMES if name.split("/")[0] not in FRAGMENTS and name not in PIPELINES]
PARTS = [name for name in NAMES if name.split("/")[0] in FRAGMENTS]

# One of each family trains in the default suite: each algorithm, and PPO also with memory and from pixels.
TRAINED = (
    "ppo/cartpole",
    "ppo/recall",
    "ppo/catch",
    "dqn/cartpole",
    "sac/pendulum",
    "sac/cartpole",
    "random/cartpole",
)

# Anomaly detection is what --debug costs: fewer of its steps show as much.
SHORT = ["--debug", "--env_steps", "80", "--eval_every", "40", "--log.tensorboard", "false"]
# A GRU is many small steps.
SHORTER = {"ppo/recall": ["--env_steps", "32", "--data.rollout_steps", "8", "--model.epochs", "1"]}

# What a fragment is laid over, and what else it then needs; the rest goes onto the default of its folder.
BASES: dict[str, list[str]] = {
    "buffer": ["dqn/cartpole"],
    "env": ["ppo/pong"],
    "network": ["ppo/cartpole"],
    "overlay": ["ppo/cartpole"],
    "env/dmc-pixels": ["sac/cartpole-balance", "network/nature-cnn"],
    "env/image": ["ppo/catch", "network/nature-cnn"],
    "env/image-gray": ["ppo/catch", "network/nature-cnn"],
    "env/noisy": ["sac/pendulum"],
    "network/lstm-cnn": ["ppo/pong"],
    "network/nature-cnn": ["ppo/pong"],
    "network/small-cnn": ["ppo/catch"],
}


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RL_LOGS", "RL_RUN_DIR", "LOCAL_RANK"):
        monkeypatch.setenv(name, "")  # so that what a run sets is undone after it
        monkeypatch.delenv(name)


def parsed(*names: str) -> RLCLI:
    return parse_config(compose(names), parse([], config=True))


def built(*names: str) -> RLCLI:
    """Data and model, with weights that take no memory."""
    cli = parsed(*names)
    cli.build(meta=True)
    return cli


def base_of(fragment: str) -> list[str]:
    return BASES.get(fragment) or BASES[fragment.split("/")[0]]


@pytest.mark.parametrize("name", [*WHOLE, *(name for name in PARTS if name.startswith("overlay/"))])
def test_header_says_what_it_is_needs_and_takes(name):
    first = (FOLDER / f"{name}.yaml").read_text().splitlines()[0]
    assert first.startswith("# ")
    assert len(first.split(" · ")) == 3, "# what · needs · how long here"


@pytest.mark.parametrize("name", PIPELINES)
def test_pipeline_shows_every_stage(name, capsys):
    assert main(["fit", "--config", name, "--dry_run"]) == 0
    shown = capsys.readouterr().out
    for stage in compose([name])["stages"]:
        assert f"# stage {stage['name']}" in shown


@pytest.mark.parametrize("name", WHOLE)
def test_config_builds(name):
    cli = built(name)
    run = cli.config_init.run
    assert run.env_steps or run.updates
    assert run.eval_every and run.eval_every <= run.env_steps
    assert any(weight.numel() for weight in cli.model.parameters()) or "random" in name


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in TRAINED else pytest.mark.slow) for n in WHOLE]
)
def test_config_trains(name, tmp_path, capsys):
    code = main(["fit", "--config", name, "--name", "try", *SHORT, *SHORTER.get(name, [])])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    run = tmp_path / "lightning_logs" / "try"
    assert (run / "config.yaml").is_file() and Run(run).checkpoint("last").exists()
    assert "eval/return" in (run / "metrics.csv").read_text()


@pytest.mark.parametrize("fragment", PARTS)
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
