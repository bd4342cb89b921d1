"""What --help prints for the commands of the desk."""

from __future__ import annotations

_GROUPS = "A name is that of a run, of a group of seeds, or of runs NAME-s0, NAME-s1 ...; of a pipeline its last stage."

_STATISTICS = """\
  --metrics A,B           metrics to compare (default reward); reward and loss stand for each run's score and loss
  --threshold X           score that counts as reached (default: nine tenths of the way from lowest to highest seen)
  --optimal X             score that the gap is measured from (default: the best seen)
  --against CLOCK         env_step, update or time (training time in seconds); default: the runs' own clock
"""

LIST = """\
usage: rl list [runs | groups | pipelines | configs | algorithms | envs] [WORD...] [options]

Without a word: the runs here, with algorithm, env, status, env_step, best and last-10 score.

  rl list
  rl list --filter algorithm=SAC --filter 'eval/return>400' --sort best --limit 10
  rl list --filter model.lr=3e-4 --columns name,model.lr,eval/return --format csv
  rl list groups                means over seeds
  rl list pipelines             with their stages
  rl list configs cartpole
  rl list algorithms PPO        its options
  rl list envs Hopper

  --filter KEY=VALUE      also != > >= < <= and ~ (contains); KEY is a field of the record (algorithm, env, status,
                          seed, group, tags, created), a setting (model.lr, data.env.id, model.network) or a metric
                          (train/loss: its newest value; eval/return and reward: the best evaluation). Repeatable
  --sort KEY              scores, metrics and clocks highest first (losses lowest), all else in order
  --reverse               the other way round
  --limit N               the first N
  --columns A,B           these keys instead of the usual columns
  --format table|json|csv
"""

TEXTS = {
    "list": LIST,
    "show": """\
usage: rl show RUN [--format text|json]

One run: scores, clocks, what differs from the config it came from, checkpoints, stages, and how to go on.

  rl show ppo-cartpole-1

  --format text|json      (default text)
""",
    "compare": f"""\
usage: rl compare NAME... [options]

Groups of runs side by side: last-10 mean, best, IQM with 95 % bootstrap interval, median, optimality gap, area under
the curve, steps to a threshold, chance of being better than the first, and the settings that differ.
{_GROUPS}

  rl compare lr1e-4 base --metrics eval/return,train/loss
  rl compare lr1e-4 base --plot curves.png --against time

{_STATISTICS}\
  --plot [FILE.png]       curves with intervals (default compare.png; .pdf and .svg too)
  --output FILE           the same, for --plot without a name
  --format table|latex|csv|json|markdown
""",
    "export": f"""\
usage: rl export NAME... --format latex|csv|json|markdown [options]
       rl export RUN --format onnx|safetensors [options]

The tables of `rl compare` for a paper or a program; or the policy of one run for use without this package.
{_GROUPS}

  rl export lr1e-4 base --format latex --output table.tex
  rl export ppo-cartpole-1 --format onnx

  --format FORMAT         latex, csv, json, markdown (default); onnx, safetensors: the policy
  --output FILE           (default: tables to the terminal, a policy into the run's folder)
  --checkpoint NAME       of a policy: best (default), last, a milestone
{_STATISTICS}""",
    "report": f"""\
usage: rl report NAME... [--output report.html] [options]

One page with curves, tables, settings, configs and small videos of all runs given. It stands alone: no network, no
script, good on a phone and on paper.
{_GROUPS}

  rl report lr1e-4 base --output report.html

  --output FILE.html      (default report.html)
  --title TEXT            (default: the names)
{_STATISTICS}""",
    "cleanup": """\
usage: rl cleanup [--keep-best N] [--keep-recent DAYS] [options]

Deletes checkpoints, replay, videos and event files of runs that are neither among the best nor recent. Configs,
records and metrics stay; runs that run, runs whose product or weights another run takes, and links are not touched.

  rl cleanup --keep-best 10 --keep-recent 30 --dry-run

  --keep-best N           the N best runs of every task stay
  --keep-recent DAYS      runs that changed within so many days stay
  --metric NAME           what the best are told by (default: a run's best evaluation)
  --dry-run               only say what would go (also: --dry_run --keep_best --keep_recent)
  --yes                   do not ask
""",
}
