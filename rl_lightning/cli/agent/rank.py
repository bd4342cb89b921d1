"""`rl rank`."""

from __future__ import annotations

from rl_lightning.cli.flags import parse
from rl_lightning.cli.outputs import note, output_file
from rl_lightning.errors import ConfigError
from rl_lightning.io.atomic import write_json
from rl_lightning.runs.store.run_folder import resolve
from rl_lightning.runs.store.select_runs import last_stage

EPISODES, UPDATES, GAMMA, SIZES = 20, 5000, 0.99, (128.0, 128.0)
TAKES = (
    "data", "behavior", "in", "env", "checkpoints", "episodes", "updates", "gamma", "hidden_dims", "eval_max_steps",
    "output", "import",
)  # fmt: skip


def rank(words: list[str]) -> int:
    """order checkpoints by what their policies are worth, from data alone

    usage: rl rank RUN... --data NAME [options]

    Estimates what each checkpoint's policy, as it draws its actions, is worth on recorded rows: by fitted-Q evaluation
    (fqe), with --behavior by weighted per-decision importance sampling (wis) and doubly robust (dr), with --in by its
    return in a learned model. With --env the true returns stand beside them, with Spearman's correlation.

      rl rank gormpo-clinic-1 --data local/clinic-scripted --behavior gormpo-clinic-1/bc --in gormpo-clinic-1
      rl rank sac-pendulum-1 --data local/pendulum-random --behavior bc-1 --env Pendulum-v1

      --data NAME                   the data set; needed
      --behavior ARTIFACT           a policy that was cloned from it (BC with loss NegativeLogLikelihood)
      --in DYNAMICS                 a learned model
      --env ID                      where the truth is known
      --checkpoints A,B             of each run (default all its milestones, and the last)
      --episodes N                  in model and env (default 20)
      --eval_max_steps N            of an episode in the model
      --updates N                   of each policy's critics (default 5000)
      --gamma N                     discount (default 0.99)
      --hidden_dims A,B             of the critics (default 128,128)
      --output FILE.json            (default <run>/ranking.json)
    """
    parsed = parse(words, TAKES, command="rank")
    source = parsed.get("data")
    if not parsed.words or source is None:
        raise ConfigError("rl rank needs a run and --data NAME; see runs with: rl list")
    runs = [last_stage(resolve(word)) for word in parsed.words]
    path = output_file(parsed.get("output"), runs[0].folder / "ranking.json", (".json",))
    from rl_lightning.analysis.off_policy.rank_checkpoints import (
        RankRequest,
        candidates,
        rank_checkpoints,
        ranking_text,
    )
    from rl_lightning.runs.config.parsing import import_packages

    import_packages(parsed.request())
    limit = parsed.get("eval_max_steps")
    gamma = parsed.number("gamma")
    asked = RankRequest(
        source,
        parsed.get("behavior"),
        parsed.get("in"),
        parsed.get("env"),
        parsed.integer("episodes", EPISODES),
        parsed.integer("updates", UPDATES),
        tuple(int(size) for size in parsed.numbers("hidden_dims", SIZES)),
        GAMMA if gamma is None else gamma,
        None if limit is None else parsed.integer("eval_max_steps", 1),
    )
    named = [word for word in (parsed.get("checkpoints") or "").split(",") if word]
    result = rank_checkpoints(candidates(runs, named), asked, note)
    print(ranking_text(result))
    write_json(path, result, default=str)
    print(path)
    return 0
