"""`rl tensorboard`."""

from __future__ import annotations

import subprocess
import sys

from rl_lightning.cli.flags import parse
from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.run_folder import logs_root, resolve_group


def tensorboard(words: list[str]) -> int:
    """on 127.0.0.1

    usage: rl tensorboard [RUN...] [--port N]

    TensorBoard on 127.0.0.1, of some runs or of all.

      rl tensorboard
      rl tensorboard ppo-cartpole-1 --port 6007

      --port N                (default 6006)
    """
    parsed = parse(words, ("port",), (), command="tensorboard")
    port = parsed.integer("port", 6006, least=0)
    if port > 65535:
        raise ConfigError(f"--port takes 0 to 65535, not {port}")
    place = ["--logdir", str(logs_root())]
    if parsed.words:
        runs = [run for word in parsed.words for run in resolve_group(word)]
        spec = ",".join(f"{run.command_name}:{run.folder.resolve()}" for run in runs)
        place = ["--logdir_spec", spec]  # with names: of a lone folder TensorBoard says "."
    elif not logs_root().is_dir():
        raise ConfigError(f"no runs here yet ({logs_root()} is missing)")
    command = [sys.executable, "-m", "tensorboard.main", *place, "--host", "127.0.0.1", "--port", str(port)]
    try:
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:
        return 0
