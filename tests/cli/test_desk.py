"""The desk's commands on a real run, and what they may not import."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rl_lightning
from rl_lightning.cli import main
from rl_lightning.errors import ConfigError

from .conftest import CARTPOLE, Rl

DOCS = Path(__file__).parents[2] / "docs" / "desk.md"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "tiny.yaml").write_text(CARTPOLE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RL_LOGS", str(folder / "logs"))
        for name in ("LOCAL_RANK", "RL_RUN_DIR"):
            patch.delenv(name, raising=False)
        assert (
            main(["fit", "--config", str(folder / "tiny.yaml"), "--name", "tiny", "--model.gamma", "0.9"])
            == 0
        )
    return folder / "logs"


@pytest.fixture
def here(trained: Path, rl: Rl, monkeypatch: pytest.MonkeyPatch) -> Rl:
    monkeypatch.setenv("RL_LOGS", str(trained))
    return rl


def test_list_in_every_form(here: Rl) -> None:
    assert here("list").out.splitlines()[0].split()[:3] == ["name", "algorithm", "env"]
    rows = json.loads(here("list", "--filter", "model.gamma=0.9", "--format", "json").out)
    assert [row["name"] for row in rows] == ["tiny"] and rows[0]["status"] == "finished"
    text = here("list", "--columns", "name,model.gamma,eval/return", "--format", "csv").out
    assert next(csv.DictReader(io.StringIO(text)))["model.gamma"] == "0.9"
    assert here("list", "--filter", "status=failed").out == "no runs match\n"
    assert here("list", "groups").out == "no groups here\n"
    assert here("list", "--filter", "algoritm=PPO").code == 2
    assert here("list", "--limit", "0").code == 2 and here("list", "--sort", "nowhere").code == 2


def test_show(here: Rl) -> None:
    text = here("show", "tiny").out
    assert "PPO on CartPole-v1" in text and "rl resume tiny" in text and "last-00000" in text
    about = json.loads(here("show", "tiny", "--format", "json").out)
    assert about["differs"]["model.gamma"] == [0.99, 0.9] and "model.clip_range" not in about["differs"]
    assert about["checkpoints"][-1]["env_step"] == 64
    assert here("show").code == 2 and here("show", "tinny").code == 2


def test_compare_export_and_report(here: Rl, workdir: Path) -> None:
    assert "IQM" in here("compare", "tiny").out
    answer = here("compare", "tiny", "--plot", "c.png", "--against", "time")
    assert answer.code == 0 and (workdir / "c.png").read_bytes().startswith(b"\x89PNG")
    assert here("compare", "tiny", "--metrics", "reward,loss", "--plot").code == 0
    assert {path.name for path in workdir.glob("compare-*.png")} == {
        "compare-eval-return.png",
        "compare-train-loss.png",
    }
    assert here("report", "tiny").code == 0 and "tiny" in (workdir / "report.html").read_text()
    for words in (["compare"], ["compare", "no-such"], ["export", "tiny", "--format", "pdf"],
                  ["compare", "tiny", "--threshold", "x"], ["compare", "tiny", "--metrics", ","]):  # fmt: skip
        assert here(*words).code == 2, words
    assert here("compare", "tiny", "--metrics", "eval/retrun").code == 3
    assert here("compare", "tiny", "--against", "epoch").code == 3


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["play", "tiny", "--output", "x.txt"], "--output x.txt: takes a file that ends in .mp4"),
        (["plot", "tiny", "--output", "p.xyz"], "--output p.xyz: takes a file that ends in .png"),
        (
            ["compare", "tiny", "--plot", "--output", "p.xyz"],
            "--output p.xyz: takes a file that ends in .png",
        ),
        (["plot", "tiny", "--output", "cartpole.yaml/p.png"], "cartpole.yaml is not a folder"),
        (["test", "tiny", "--output", "."], "is a folder; give a file"),
    ],
)
def test_no_work_is_done_for_a_file_that_cannot_be(here: Rl, words: list[str], reason: str) -> None:
    done = here(*words)
    assert done.code == 2 and reason in done.err and len(done.err.splitlines()) == 1, done
    assert not done.out


def test_folders_of_an_output_are_made(here: Rl, workdir: Path) -> None:
    done = here("test", "tiny", "--episodes", "1", "--output", "new/deep/t.json")
    assert done.code == 0, done.err
    assert len(json.loads((workdir / "new/deep/t.json").read_text())["episodes"]) == 1
    assert here("plot", "tiny", "--output", "new/p").code == 0
    assert (workdir / "new/p.png").read_bytes().startswith(b"\x89PNG"), "no suffix stands for the first"


def test_none_of_it_imports_torch(trained: Path, workdir: Path) -> None:
    lines = [
        ["list", "--filter", "model.gamma=0.9", "--filter", "train/loss>-9"], ["show", "tiny"],
        ["compare", "tiny", "tiny", "--format", "json"], ["export", "tiny"],
        ["cleanup", "--keep-best", "1", "--dry-run"],
    ]  # fmt: skip
    script = (
        "import sys, json, rl_lightning\nfrom rl_lightning.cli import main\n"
        "rl_lightning.find(algorithm='PPO'); rl_lightning.compare('tiny')\n"
        f"codes = [main(line) for line in {lines!r}]\n"
        "drawn = 'matplotlib' in sys.modules\n"
        "codes.append(main(['report', 'tiny']))\n"
        "heavy = [m for m in ('torch', 'lightning', 'gymnasium', 'jsonargparse') if m in sys.modules] + [drawn]\n"
        "print(json.dumps([codes, heavy]))"
    )
    root = str(Path(rl_lightning.__file__).parents[1])
    environment = {"RL_LOGS": str(trained), "PATH": "/usr/bin:/bin", "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [[0] * (len(lines) + 1), [False]]


def test_importing_the_package_is_light() -> None:
    code = "import sys, rl_lightning; dir(rl_lightning); print(sorted({'torch', 'numpy', 'yaml'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rl_lightning.nothing  # noqa: B018


def test_a_loaded_policy_acts_as_predict_does(here: Rl, workdir: Path) -> None:
    policy = rl_lightning.load("tiny")
    obs = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
    np.savez(workdir / "obs.npz", obs=obs)
    assert here("predict", "tiny", "--data", "obs.npz", "--output", "out.npz").code == 0
    expected = np.load(workdir / "out.npz")["action"]
    assert policy.act(obs).tolist() == expected.tolist()
    assert [int(policy.act(row)) for row in obs] == expected.tolist()
    policy.reset()
    with pytest.raises(ConfigError, match="expected \\[4\\]"):
        policy.act(np.zeros(3))
    with pytest.raises(ConfigError, match="no run"):
        rl_lightning.load("nowhere")


def test_the_page_runs_as_shown(here: Rl, workdir: Path) -> None:
    shown = re.search(r"^```python\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert shown
    exec(compile(shown.group(1).replace("ppo-cartpole-1", "tiny"), "desk.md", "exec"), {})
    assert (workdir / "curves.png").exists()


def test_find_from_python(trained: Path) -> None:
    found = rl_lightning.find("env_step>=64", algorithm="ppo", root=trained)
    assert [run.name for run in found] == ["tiny"] and "PPO on CartPole-v1" in repr(found[0])
    assert rl_lightning.find(status="failed", root=trained) == []


def test_a_shipped_pipeline_differs_from_itself_in_nothing(rl: Rl, workdir: Path) -> None:
    """Its stages are held against those of the shipped one, not against the bare names of their configs."""
    import yaml

    from rl_lightning.runs.config.compose import compose, find, inline

    folder = workdir / "lightning_logs/p"
    folder.mkdir(parents=True)
    record = {"kind": "pipeline", "status": "finished", "command": ["rl", "fit", "--config", "gormpo/demo"]}
    (folder / "run.json").write_text(json.dumps(record))
    config = inline(compose(["gormpo/demo"]), find("gormpo/demo").parent)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    assert json.loads(rl("show", "p", "--format", "json").out)["differs"] == {}
    config["stages"][0]["config"]["model"]["init_args"]["lr"] = 0.5
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (differs,) = json.loads(rl("show", "p", "--format", "json").out)["differs"].items()
    assert differs[0].endswith("config.model.lr") and differs[1][1] == 0.5
