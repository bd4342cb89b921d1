"""Draws README's pictures of two groups of runs: docs/compare.png and, in a headless Chromium, docs/report.png.

rl fit --config ppo/cartpole --seeds 0-2 --env_steps 16000 --eval_every 2000 --name base
rl fit --config ppo/cartpole --seeds 0-2 --env_steps 16000 --eval_every 2000 --model.lr 1e-4 --name lr1e-4
python scripts/make_pictures.py base lr1e-4
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from rl_lightning.cli.main import main as rl

DOCS = Path(__file__).parents[1] / "docs"
SIZE = "1100,1130"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="+")
    parser.add_argument("--output", type=Path, default=DOCS)
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no Chromium is installed here: apt-get install chromium")
    if rl(["compare", *options.groups, "--plot", str(options.output / "compare.png")]):
        raise SystemExit(1)
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder) / "report.html", options.output / "report.png"
        if rl(["report", *options.groups, "--output", str(page)]):
            raise SystemExit(1)
        words = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={SIZE}",
        ]
        command = [
            browser,
            *words,
            f"--user-data-dir={folder}/profile",
            f"--screenshot={picture}",
            page.as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    print(picture)


if __name__ == "__main__":
    main()
