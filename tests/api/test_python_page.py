"""docs/python.md runs as it is shown, from top to bottom."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_page_runs_as_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RL_LOGS", str(tmp_path / "logs"))
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 7
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    said = capsys.readouterr().out
    assert "<run ppo-cartpole-1: finished" in said and "no setting differs" not in said
    assert names["longer"].record["env_step"] >= 4_000
    assert len(names["runs"]) == 3 and "<group three: 3 of 3 seeds finished>" in said
    assert names["own"].torso.out_dim == 32


def test_a_pipelines_stages_are_its_items(tmp_path, monkeypatch):
    import rl_lightning as rl

    monkeypatch.setenv("RL_LOGS", str(tmp_path / "logs"))
    done = rl.fit("gormpo/demo", debug=True)
    assert done.status == "finished" and "gormpo" in done.stages
    assert done["gormpo"].status == "finished" and done["gormpo"].folder.parent == done.folder
    with pytest.raises(KeyError, match="no stage 'policy'"):
        done["policy"]
