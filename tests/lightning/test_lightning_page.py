"""docs/lightning.md runs as it is shown; docs/architecture.md names what exists."""

import importlib
import re
from pathlib import Path

import pytest

from rl_lightning.trainer.contract import REFUSED

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_runs_as_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = DOCS / "lightning.md"
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    said = [line for line in capsys.readouterr().out.splitlines() if re.match(r"\d", line)]
    assert said[0].startswith("2 ") and "2.0" in said
    assert names["data"].clock.update > 0


def test_the_table_of_callbacks_names_all_that_are_refused():
    page = (DOCS / "lightning.md").read_text()
    assert all(f"`{name}" in page for name in REFUSED)


NAMED = re.findall(r"`(rl_lightning/[\w/]+\.py)`(?:\s+`([\w.]+)`)?", (DOCS / "architecture.md").read_text())
LOOSE = re.findall(r"`([A-Z]\w+\.\w+)`", (DOCS / "architecture.md").read_text())


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_the_walks_name_what_exists(path, name):
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    for part in name.split(".") if name else ():
        module = getattr(module, part)


def test_methods_that_stand_alone_exist_too():
    places = [
        "algorithms.policy_module", "algorithms.rl_module", "algorithms.online.sac", "checkpoints.run_checkpoint",
        "checkpoints.checkpoint_store", "datamodules.online_data", "datamodules.bases.rl_data",
        "datamodules.bases.env_data",
        "rollout.block",
    ]  # fmt: skip
    homes = [importlib.import_module(f"rl_lightning.{place}") for place in places]
    assert len(NAMED) > 15 and LOOSE
    for dotted in LOOSE:
        kind, method = dotted.split(".")
        owner = next((getattr(home, kind) for home in homes if hasattr(home, kind)), None)
        assert owner is not None and hasattr(owner, method), dotted
