"""`rl data make` and `rl data publish`."""

from __future__ import annotations

from rl_lightning.cli.flags import parse
from rl_lightning.errors import ConfigError


def make(words: list[str]) -> int:
    parsed = parse(
        words,
        takes=("rows", "seed", "run", "checkpoint", "env", "num_envs"),
        switches=("greedy", "force"),
        command="data",
    )
    if len(parsed.words) != 1 or not parsed.words[0].startswith("local/"):
        raise ConfigError("rl data make needs a name of your own below local/, e.g. local/hopper-medium")
    from rl_lightning.runs.recording.record_dataset import DatasetRequest, described, record_dataset

    wanted = DatasetRequest(
        name=parsed.words[0],
        rows=parsed.integer("rows", 0) or None,
        seed=parsed.integer("seed", 0, least=0),
        run=parsed.get("run"),
        checkpoint=parsed.get("checkpoint"),
        env=parsed.get("env"),
        num_envs=parsed.integer("num_envs", 0) or None,
        greedy=parsed.has("greedy"),
        force=parsed.has("force"),
        command=" ".join(parsed.raw),
    )
    print(described(wanted.name, *record_dataset(wanted)))
    return 0


def publish(words: list[str]) -> int:
    parsed = parse(words, takes=("level", "output", "checkpoint", "episodes"), command="data")
    if len(parsed.words) != 1 or not parsed.get("level"):
        raise ConfigError("rl data publish needs a run and a level: rl data publish RUN --level medium")
    from rl_lightning.runs.recording.publish_policy import PUBLISH_EPISODES, publish_policy

    path, about = publish_policy(
        parsed.words[0],
        str(parsed.get("level")),
        parsed.get("output"),
        parsed.get("checkpoint") or "best",
        parsed.integer("episodes", PUBLISH_EPISODES),
    )
    print(
        f"{path} ({path.stat().st_size / 1e3:.0f} kB): {about['level']} on {about['env_id']}\n"
        f"return {about['return']:.1f} greedy, {about['sampled_return']:.1f} sampled, "
        f"{about['random_return']:.1f} random"
    )
    return 0
