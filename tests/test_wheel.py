"""The wheel alone, in an empty venv and another folder, lists its configs and trains."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from rl_lightning.runs.config.compose import shipped

ROOT = Path(__file__).parents[1]
SOURCES = ("rl_lightning", "configs", "checkpoints/policies")  # not what was trained here
FILES = ("pyproject.toml", "README.md", "setup.py", "MANIFEST.in")


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The bin folder of a venv that holds the wheel, and sees the other packages of this one."""
    base = tmp_path_factory.mktemp("wheel")
    source = base / "source"  # a copy, so that building leaves nothing in the checkout
    for name in SOURCES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    (source / "checkpoints" / "probe.safetensors").write_bytes(b"a published policy")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", source, "--no-deps", "--no-build-isolation", "--no-index", "-w", base, cwd=base)
    (wheel,) = base.glob("*.whl")
    venv.create(base / "venv", with_pip=False, symlinks=True)
    python = base / "venv" / "bin" / "python"
    run(*pip, "--python", python, "install", wheel, "--no-deps", "--no-index", cwd=base)
    # a plain path: .pth files in that folder, the editable install's among them, are not followed
    packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=base).strip()
    )
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return base / "venv" / "bin"


def test_words_of_other_libraries_are_in_the_wheel(installed, tmp_path):
    code = "from rl_lightning.runs.config import aliases as a\nprint(a.__file__, len(a.table()))"
    file, rows = run(installed / "python", "-c", code, cwd=tmp_path).split()
    assert Path(file).is_relative_to(installed.parent) and int(rows) > 1000


def test_code_configs_and_policies_are_the_wheels_own(installed, tmp_path):
    code = (
        "from rl_lightning.runs.config import compose as c\n"
        "print(c.PACKAGE, *c.config_roots(), c.PACKAGE / '_checkpoints')"
    )
    package, configs, shelf = (
        Path(line) for line in run(installed / "python", "-c", code, cwd=tmp_path).split()
    )
    assert package.is_relative_to(installed.parent) and (package / "py.typed").is_file()
    assert {p.relative_to(configs) for p in configs.rglob("*.yaml")} == {
        p.relative_to(ROOT / "configs") for p in (ROOT / "configs").rglob("*.yaml")
    }
    assert {p.name for p in shelf.glob("*.safetensors")} == {
        "probe.safetensors", *(p.name for p in (ROOT / "checkpoints").glob("*.safetensors"))
    }  # fmt: skip


def test_lists_configs_from_another_folder(installed, tmp_path):
    listing = run(installed / "rl", "list", "configs", cwd=tmp_path)
    names = {line.split()[0] for line in listing.splitlines()[1:]}
    assert names == shipped().keys()
    files = {
        p.relative_to(ROOT / "configs").with_suffix("").as_posix() for p in (ROOT / "configs").rglob("*.yaml")
    }
    assert files < names and "gormpo/hopper-medium-v2" in names - files


def test_trains_in_another_folder(installed, tmp_path):
    out = run(installed / "rl", "fit", "--config", "ppo/cartpole", "--debug", cwd=tmp_path)
    assert "done:" in out
    assert (tmp_path / "lightning_logs" / "ppo-cartpole-1" / "config.yaml").is_file()
