"""`rl export`."""

from __future__ import annotations

import sys
from pathlib import Path

from rl_lightning.cli.desk.compared import STATISTICS, compared
from rl_lightning.cli.flags import parse
from rl_lightning.cli.options import OWN_SWITCHES
from rl_lightning.errors import ConfigError

POLICIES = ("onnx", "safetensors", "hub")
SUFFIXES = (".onnx", ".safetensors")
POLICY_TAKES = ("config", "import", "checkpoint", "episodes", "format", "output")


def export(words: list[str]) -> int:
    """the same as LaTeX, CSV, JSON or Markdown; or a policy as ONNX

    usage: rl export NAME... --format latex|csv|json|markdown [options]
           rl export RUN --format onnx|safetensors|hub [options]

    The tables of `rl compare` for a paper or a program; or the policy of one run for use without this package.
    [GROUPS]

      rl export lr1e-4 base --format latex --output table.tex
      rl export ppo-cartpole-1 --format onnx
      rl export ppo-cartpole-1 --output ppo.onnx

      --format FORMAT         latex, csv, json, markdown (default); onnx, safetensors: the policy; hub: a folder that
                              others can play (rl play FOLDER), with its card, film and config
      --output FILE           (default: tables to the terminal, a policy into a folder of the run's); FILE.onnx and
                              FILE.safetensors are a policy, and say the format
      --checkpoint NAME       of a policy: best (default), last, a milestone
    [STATISTICS]
    """
    if any(word.removeprefix("--format=") in POLICIES or word.endswith(SUFFIXES) for word in words):
        return _export_policy(words)
    parsed = parse(words, (*STATISTICS, "format", "output"), command="export")
    comparison, _ = compared(parsed, "export")
    from rl_lightning.analysis.export.tables import export as export_as
    from rl_lightning.analysis.export.tables import write_output

    text, output = export_as(comparison, parsed.get("format") or "markdown"), parsed.get("output")
    if output is None:
        sys.stdout.write(text)
    else:
        print(write_output(Path(output), text))
    return 0


def _export_policy(words: list[str]) -> int:
    parsed = parse(words, POLICY_TAKES, OWN_SWITCHES, config=True, command="export")
    if len(parsed.words) != 1:
        raise ConfigError("rl export --format onnx takes one run; see them with: rl list")
    from rl_lightning.analysis.export.export_policy import export_policy
    from rl_lightning.cli.agent.named_agent import named_agent

    agent = named_agent(parsed, "best", None)
    assert agent.run is not None
    place = Path(parsed.get("output") or agent.run.folder / "export")
    kind = parsed.get("format") or place.suffix.removeprefix(".") or "onnx"
    if kind == "hub":
        from rl_lightning.analysis.export.hub_folder import EPISODES, export_hub

        place = Path(parsed.get("output") or agent.run.folder / "hub")
        print(export_hub(agent, place, parsed.integer("episodes", EPISODES)))
        return 0
    if place.name.endswith(SUFFIXES) and place.suffix != f".{kind}":
        raise ConfigError(f"--format {kind} is written to a file or folder of that kind, not to {place.name}")
    print(export_policy(agent, kind, place))
    return 0
