"""Stands for `rl` in tests of a sweep: the same words, folders and exit codes, no learning, no imports that cost time.

The config's `stub` says what happens: how many rows, how long each takes, and which exit code ends it, once or always.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import yaml


def value_of(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def main(words: list[str]) -> int:
    logs = Path(os.environ["RL_LOGS"])
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    resumed = words[0] == "resume"
    name = words[1] if resumed else value_of(words, "--name")
    folder = logs / name
    if not resumed:
        folder.mkdir()  # like `claim`: a name in use is refused
        (folder / "config.yaml").write_text(Path(value_of(words, "--config")).read_text())
        (folder / "metrics.csv").write_text("env_step,eval/return,time/memory_gb\n")
    with open(logs / "starts.txt", "a") as file:
        file.write(f"{name} {words[0]}\n")
    config = yaml.safe_load((folder / "config.yaml").read_text())
    arguments = config["model"]["init_args"]
    rows, pause, ends = (
        int(arguments.get("rows", 3)),
        float(arguments.get("pause", 0.02)),
        arguments.get("ends", 0),
    )
    record = {"status": "running", "pid": os.getpid(), "host": os.uname().nodename}
    (folder / "run.json").write_text(json.dumps(record))
    done = len((folder / "metrics.csv").read_text().splitlines()) - 1
    for row in range(done, rows):
        time.sleep(pause)
        value = arguments["lr"] * (row + 1) + 0.001 * config["seed_everything"]
        with open(folder / "metrics.csv", "a") as file:
            file.write(f"{row + 1},{value!r},{arguments.get('memory', 1.0)}\n")
        (folder / "checkpoints" / f"last-{row}").mkdir(parents=True)
        if stopped:
            (folder / "run.json").write_text(json.dumps(record | {"status": "interrupted"}))
            return 143
        if ends and row >= 1 and not (resumed and arguments.get("once")):
            sys.stdout.write(f"error: ended with {ends}\n")
            sys.stdout.flush()
            os._exit(ends)
    (folder / "run.json").write_text(json.dumps(record | {"status": "finished"}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
