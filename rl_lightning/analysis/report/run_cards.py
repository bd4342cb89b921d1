"""Cards of runs on a report; those of one config are one card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rl_lightning.analysis.report.report_page import RunPart


def folded(cards: Sequence[tuple[str, RunPart]]) -> list[RunPart]:
    """One card for all runs of one config.

    Args:
        cards: Each with what is equal for runs that differ in nothing but their seed.
    """
    same: dict[str, list[RunPart]] = {}
    for key, card in cards:
        same.setdefault(key, []).append(card)
    return [members[0] if len(members) == 1 else _together(members) for members in same.values()]


def _together(members: Sequence[RunPart]) -> RunPart:
    keys = list(dict.fromkeys(key for card in members for key, _ in card.facts))
    values = {key: [dict(card.facts).get(key) for card in members] for key in keys}
    facts: list[tuple[str, Any]] = [
        (
            key,
            several[0] if all(value == several[0] for value in several) else " · ".join(map(_text, several)),
        )
        for key, several in values.items()
        if key != "command" or len(members) == 1
    ]
    facts += [("command", f"{members[0].name}: {values['command'][0]}")] if "command" in values else []
    films = [(f"{card.name}: {name}", source) for card in members for name, source in card.videos]
    return RunPart(", ".join(card.name for card in members), facts, members[0].config, films)


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
