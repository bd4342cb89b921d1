"""Carries configs and published policies in the wheel; everything else is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# folder of the checkout -> folder inside the package, and what is taken along
CARRIED = {"configs": ("_configs", "*.yaml"), "checkpoints": ("_checkpoints", "*.safetensors")}


class BuildWithConfigs(build_py):
    """Copies them into the package that is built; an editable install reads the checkout itself."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for source, (target, pattern) in CARRIED.items():
            for file in sorted(Path(source).rglob(pattern)):
                copy = Path(self.build_lib, "rl_lightning", target, file.relative_to(source))
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)


setup(cmdclass={"build_py": BuildWithConfigs})
