"""`rl reproduce`."""

from __future__ import annotations

from rl_lightning.cli.flags import parse
from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.run_folder import resolve


def reproduce(words: list[str]) -> int:
    """run it again, name the first metric that differs

    usage: rl reproduce RUN [--env_steps N | --updates N]

    Runs it again with the same config, seed and threads, and names the first metric or evaluation episode that
    differs, or says that none does; if one does, also what else is different: versions, code, machine, data.

      rl reproduce ppo-cartpole-1 --env_steps 20000

      --env_steps N           stop there (default: where the run is now); --updates where that is the run's clock
    """
    parsed = parse(words, ("env_steps", "updates", "import"), (), command="reproduce")
    if len(parsed.words) != 1:
        raise ConfigError("rl reproduce takes one run; see them with: rl list")
    stop = max(parsed.integer("env_steps", 0), parsed.integer("updates", 0))
    run = resolve(parsed.words[0])
    from rl_lightning.analysis.reproduce import Reproduction

    reproduction = Reproduction(run, parsed.request(verb="reproduce"), stop)
    print(reproduction.note, flush=True)
    code, text = reproduction.fit()
    if text is not None:
        print(text)
    return code
