"""Statistics of the episodes of an evaluation, as numbers and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rl_lightning.functional.score_statistics import bootstrap_interval, iqm, mean, std
from rl_lightning.io.score_counts import is_few
from rl_lightning.io.text import counted, number
from rl_lightning.rollout.evaluate import extra_means


def episode_statistics(episodes: Sequence[Any]) -> dict[str, Any]:
    """Mean, IQM and 95% interval of the returns, and the means of what else was tracked."""
    returns = [episode.episode_return for episode in episodes]
    low, high = bootstrap_interval(returns, statistic=mean)
    numbers = {"mean": mean(returns), "std": std(returns), "iqm": iqm(returns), "low": low, "high": high}
    if cut := sum(episode.cut for episode in episodes):
        numbers["cut"] = cut
    numbers |= {
        "min": min(returns),
        "max": max(returns),
        "length": mean([episode.length for episode in episodes]),
    }
    return numbers | extra_means(episodes)


def statistics_text(title: str, episodes: Sequence[Any]) -> str:
    """The same in four lines."""
    numbers = episode_statistics(episodes)
    few = is_few(len(episodes))  # an interval would promise too much
    returns = ", ".join(f"{episode.episode_return:.2f}" for episode in episodes)
    interval = f"95% interval {numbers['low']:.2f} to {numbers['high']:.2f}"
    extra = [f"{key} {number(value)}" for key, value in extra_means(episodes).items()]
    if "cut" in numbers:
        extra.append(f"{numbers['cut']} of {len(episodes)} episodes cut (--eval_max_steps)")
    return "\n".join(
        [
            f"{title} · {counted(len(episodes), 'episode')}",
            f"return  mean {numbers['mean']:.2f}  IQM {numbers['iqm']:.2f}  {f'of {returns}' if few else interval}",
            f"        std {numbers['std']:.2f}  min {numbers['min']:.2f}  max {numbers['max']:.2f}",
            "length  " + "  ".join([f"mean {numbers['length']:.1f}", *extra]),
        ]
    )


def values_text(title: str, groups: dict[str, Any]) -> str:
    """Numbers by name, groups indented below their own."""
    lines = [title] if title else []
    plain = {key: value for key, value in groups.items() if not isinstance(value, dict)}
    width = max((len(key) for key in plain), default=0)
    lines += [f"{key.removeprefix('eval/'):<{width}}  {_number(value)}" for key, value in plain.items()]
    for key, value in groups.items():
        if isinstance(value, dict):
            lines += [f"{key}:", *(f"  {line}" for line in values_text("", value).splitlines())]
    return "\n".join(lines)


def _number(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "  ".join(_number(item) for item in value)
    return number(value) if isinstance(value, float) else str(value)
