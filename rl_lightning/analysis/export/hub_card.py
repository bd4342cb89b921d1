"""The card of a shared agent: what the Hub reads at its head, and what people read below."""

from __future__ import annotations

from typing import Any

import yaml


def card(record: dict[str, Any], has_film: bool) -> str:
    """The README of a shared agent.

    Args:
        record: Its run.json.
        has_film: Whether replay.mp4 lies beside it.
    """
    algorithm, env, result = record["algorithm"], record["env"], record["result"]
    score = f"{result['mean']:.2f} +/- {result['std']:.2f}"
    metric = {"type": "mean_reward", "value": score, "name": "mean_reward", "verified": False}
    entry = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"name": env, "type": env},
        "metrics": [metric],
    }
    tags = ["reinforcement-learning", "rl_lightning", env, algorithm, *(record.get("tags") or [])]
    head = {
        "library_name": "rl_lightning",
        "tags": list(dict.fromkeys(map(str, tags))),
        "model-index": [{"name": algorithm, "results": [entry]}],
    }
    command = " ".join(record["command"]) or "unknown"
    steps = f"{record.get('env_step') or 0:,} env steps, {record.get('update') or 0:,} updates"
    if source := record.get("imported"):
        steps = f"its weights were trained elsewhere and imported from {source['from']}"
    lines = [
        "---",
        yaml.safe_dump(head, sort_keys=False, allow_unicode=True).rstrip(),
        "---",
        "",
        f"# {algorithm} on {env}",
        "",
        f"Return {score} over {result['episodes']} episodes from seed {result['seed']}; {steps}.",
        *(["", "`replay.mp4` shows the first of them."] if has_film else []),
        "",
        "```bash",
        "rl play FOLDER            # or: rl play hub:USER/NAME",
        "```",
        "",
        "Imported with:" if record.get("imported") else "Trained with:",
        "",
        "```bash",
        command,
        "```",
        "",
        "Weights are safetensors, `config.yaml` names classes; nothing in this folder is run when it is played.",
    ]
    if packages := record.get("imports"):
        lines += ["", f"It needs code of its maker's: `--import {' '.join(packages)}`."]
    return "\n".join(lines) + "\n"
