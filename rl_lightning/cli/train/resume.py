"""`rl resume`."""

from __future__ import annotations

from rl_lightning.cli.flags import parse
from rl_lightning.cli.options import OWN_SWITCHES, OWN_VALUES
from rl_lightning.cli.process import say_loading
from rl_lightning.cli.train.fit import show_stages
from rl_lightning.errors import ConfigError
from rl_lightning.runs.engine.init_distributed import init_distributed, run_lock
from rl_lightning.runs.engine.resume import budget_spent, check_resume_mode, resume_run
from rl_lightning.runs.store.run_folder import group_of, resolve


def resume(words: list[str]) -> int:
    """resume a run   rl resume ppo-cartpole-1

    usage: rl resume RUN [--env_steps N] [options of rl fit]

    Goes on with a run from its last checkpoint, in its own folder.

      rl resume ppo-cartpole-1 --env_steps 200000

      --checkpoint NAME       another checkpoint of the run, e.g. step-20000 (default last)
      --reset_lr              apply the config's learning rate instead of the checkpoint's
    """
    parsed = parse(words, OWN_VALUES, OWN_SWITCHES, config=True, command="resume")
    if len(parsed.words) != 1:
        raise ConfigError("rl resume takes one run; see them with: rl list")
    request = parsed.request(verb="resume")
    check_resume_mode(parsed.words[0], request)
    if (members := group_of(parsed.words[0])) is not None:
        from rl_lightning.runs.engine.group import resume_group

        code = resume_group(parsed.words[0], members, words, parsed.integer("jobs", 1))
        if any((run.folder / "pipeline.json").is_file() for run in members):
            show_stages(parsed.words[0])
        return code
    run = resolve(parsed.words[0])
    if (finished := budget_spent(run, request)) is not None:
        print(finished)
        return 0
    say_loading(run.command_name)
    init_distributed()
    with run_lock(run):
        code = resume_run(run, request)
    if code == 0 and (run.folder / "pipeline.json").is_file():
        show_stages(str(run.folder))
    return code
