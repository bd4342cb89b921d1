"""What `rl data check` looks at: everything that has spoilt results in silence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from rl_lightning.datasets.data_files import Source
from rl_lightning.datasets.formats.raw import (
    CLIPPED,
    FROM_DONES,
    LAYOUT,
    Array,
    Raw,
    convert_line,
    first_bad,
    missing_from,
)
from rl_lightning.datasets.load import checked, read_source, reference_of, spec_of
from rl_lightning.datasets.references import Reference
from rl_lightning.datasets.rows.action_kinds import SLACK
from rl_lightning.datasets.rows.episode_rows import (
    RECORDED,
    drop_nonfinite,
    ends_of,
    split_episodes,
    timeouts_of,
)
from rl_lightning.datasets.rows.goals import goes_on
from rl_lightning.datasets.rows.outliers import described, outliers
from rl_lightning.datasets.summary import EpisodeTable, episode_table
from rl_lightning.errors import ConfigError

JUMP = 1e-3  # of a dimension's standard deviation
BARS = 10


class CheckLine(NamedTuple):
    """One line of the report, and perhaps more below it."""

    topic: str
    text: str
    bad: bool = False
    more: tuple[str, ...] = ()


def examine(source: Source) -> list[CheckLine]:
    """Looks at a data set that can at least be read; raises DataError if it cannot."""
    raw = checked(source, read_source(source, convertible=True))
    spec_of(raw)  # raises on bounds and numbers of actions that cannot be
    values = _values(raw)
    truncated, guessed = timeouts_of(raw, guess=True)
    raw, _ = drop_nonfinite(raw._replace(arrays={**raw.arrays, "timeouts": truncated}))
    table = episode_table(raw)
    reference, lacking = reference_of(source, raw.metadata), missing_from(raw.metadata)
    return [
        CheckLine("layout", str(raw.metadata.get(LAYOUT, source.kind))),
        *_missing(raw),
        _episodes(table, raw),
        *([] if "rewards" in lacking else [_returns(table, reference)]),
        _ends(raw, table, guessed),
        values,
        *_continuity(raw, bool(guessed)),
        *_bounds(raw),
        _actions(raw),
        *([] if "terminals" in lacking else _rule(raw)),
    ]


def _missing(raw: Raw) -> list[CheckLine]:
    """What the file does not have, and who can therefore not learn from it."""
    lacking = missing_from(raw.metadata)
    lines = []
    if "rewards" in lacking:
        lines.append(
            "no rewards: BC and diffusion policy imitate it; nothing that learns values or rewards can use it"
        )
    if "terminals" in lacking:
        lines.append(
            "no terminals: BC and diffusion policy imitate it; values need to know what an end means, say it with: "
            f"rl data convert {raw.where} NEW.hdf5 --ends truncated (or terminated)"
        )
    if "next_observations" not in raw.arrays:
        lines.append(
            "no next_observations: the following row's stand in; what came behind an end is unknown to models"
        )
    return [CheckLine("missing", lines[0], more=tuple(lines[1:]))] if lines else []


def _episodes(table: EpisodeTable, raw: Raw) -> CheckLine:
    lengths = table.lengths
    text = (
        f"{len(lengths)}, {int(table.finished.sum())} of them whole; "
        f"{lengths.min()} to {lengths.max()} steps, mean {lengths.mean():.1f}"
    )
    if _one_recording(table, raw):
        text += (
            "; one recorded episode: a policy can be trained, but dynamics, density and FQE hold out whole "
            "episodes and need a second one, or --data.split transition"
        )
    return CheckLine("episodes", text)


def _one_recording(table: EpisodeTable, raw: Raw) -> bool:
    """Whether all rows come from one recorded episode, also where rows taken out cut it into pieces."""
    known = raw.infos.get(RECORDED)
    if known is None or known.dtype.kind not in "iu":
        return len(table.lengths) == 1
    return bool(known.min() == known.max())


def _returns(table: EpisodeTable, reference: Reference | None) -> CheckLine:
    chosen = table.returns[table.finished] if table.finished.any() else table.returns
    text = f"mean {chosen.mean():.4g}, std {chosen.std():.4g}, min {chosen.min():.4g}, max {chosen.max():.4g}"
    if reference is not None:
        text += f"; mean score {reference.score(float(chosen.mean())):.1f} ({reference.kind})"
    return CheckLine("returns", text, more=tuple(histogram(chosen)))


def histogram(values: Array, width: int = 40) -> list[str]:
    """Bars of text."""
    counts, edges = np.histogram(values, min(BARS, max(1, len(values))))
    most = max(1, int(counts.max()))
    return [
        f"{low:>10.4g} to {high:<10.4g} {'█' * round(width * count / most)} {count}"
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]


def _ends(raw: Raw, table: EpisodeTable, guessed: dict[str, str]) -> CheckLine:
    terminated, truncated = raw.arrays["terminals"], raw.arrays["timeouts"]
    text = f"{int(terminated.sum())} terminals, {int(truncated.sum())} timeouts"
    both = int((terminated & truncated).sum())
    text += f", {both} rows are both" if both else ""
    text += ", the last episode is unfinished" if not table.finished[-1] else ""
    if goes_on(raw):
        text += "; terminals are goals that the recording goes on behind, they end no episode"
    if FROM_DONES in raw.metadata:
        text += f"; {raw.metadata[FROM_DONES]}"
        if len(table.lengths) > 1 and terminated.any() and (table.lengths == table.lengths[0]).all():
            text += f", all after {table.lengths[0]} steps: if that is a time limit, convert it with --ends truncated"
    return CheckLine("ends", "; ".join([text, *guessed.values()]), bad=refused(raw, guessed))


def refused(raw: Raw, guessed: dict[str, str]) -> bool:
    """Training will not take a guess; a limit in the metadata is none."""
    return bool(guessed) and "max_episode_steps" not in raw.metadata


def _values(raw: Raw) -> CheckLine:
    parts = [
        f"NaN or infinite: '{key}' in {len(rows)} rows, first {rows[0]}"
        for key, rows in first_bad(raw).items()
    ]
    parts += [f"far from all others: {described(key, outlier)}" for key, outlier in outliers(raw).items()]
    if not parts:
        return CheckLine("values", "no NaN, nothing infinite, nothing far from all others")
    return CheckLine("values", "; ".join(parts), bad=True)


def _continuity(raw: Raw, guessed: bool) -> list[CheckLine]:
    """Whether each next observation is the following one inside an episode, and is not where an episode ends."""
    following = raw.arrays.get("next_observations")
    if following is None:
        return _linked(raw)
    obs, terminated = raw.arrays["observations"], raw.arrays["terminals"]
    ends = ends_of(raw, raw.arrays["timeouts"])[:-1]
    scale = obs.std(0, dtype=np.float64) + 1e-6
    differs = (np.abs(following[:-1] - obs[1:]) > JUMP * scale).any(1)
    jumps = differs & ~ends
    inside = int((~ends).sum())
    text = f"{int(jumps.sum())} of {inside} steps inside episodes lead elsewhere than to the next row"
    if jumps.any():
        text += f", first row {int(np.flatnonzero(jumps)[0])}"
    # an episode cut by guess is not a jump in the data
    findings = [CheckLine("jumps", text, bad=bool(jumps.any()))]
    real = terminated[:-1] & ends if guessed else ends
    # where the next episode begins with this row's own observation, nothing can be told
    real &= (np.abs(obs[:-1] - obs[1:]) > JUMP * scale).any(1)
    shifted = int((real & ~differs).sum())
    if real.any():
        text = f"{shifted} of {int(real.sum())} ends have the next episode's first observation as their next"
        bad = shifted > 0.5 * real.sum()
        if bad:
            text += ": next observations were shifted across episodes. Fetch or record the data again"
        findings.append(CheckLine("teleports", text, bad=bad))
    return findings


def _linked(raw: Raw) -> list[CheckLine]:
    """What a file without next observations loses, and whether that is all there is to learn from."""
    rows = split_episodes(raw)
    findings = [CheckLine("jumps", f"next observations: {rows.notes['next_observations']}")]
    positive = int((raw.arrays["rewards"] > 0).sum())
    for who, left in (
        ("nobody", rows.reward),
        ("no model of next observations", rows.reward[rows.next_known]),
    ):
        if positive and not (left > 0).any():
            text = f"{positive} are positive, and {who} sees one: they lie in rows whose next observation is unknown"
            return [*findings, CheckLine("rewards", text, bad=True)]
    return findings


def _actions(raw: Raw) -> CheckLine:
    actions = raw.arrays["actions"]
    if actions.dtype.kind != "f":
        values = np.unique(actions.reshape(len(actions), -1)[:, 0])
        return CheckLine("actions", f"discrete, {len(values)} of them used, {values.min()} to {values.max()}")
    outside = int((np.abs(actions) > 1 + SLACK).any(1).sum())
    at_bounds = float((np.abs(actions) > 0.999).mean())
    text = f"{actions.min():.4g} to {actions.max():.4g}, {outside} rows outside [-1, 1], {at_bounds:.1%} at a bound"
    if outside and CLIPPED in raw.metadata:
        return CheckLine("actions", f"{text}; they are clipped: {raw.metadata[CLIPPED]}")
    if outside:
        text += f". Take its env's bounds: {convert_line(raw.where)} --env ID, and --clip_actions if the env clipped"
    return CheckLine("actions", text, bad=outside > 0)


def _bounds(raw: Raw) -> list[CheckLine]:
    """Whether observations lie where their env's do; left out where the env has no bounds, or none is known."""
    import gymnasium

    env_id, obs = str(raw.metadata.get("env_id", "")), raw.arrays["observations"]
    if env_id not in gymnasium.registry:  # a name from a file; nothing is imported for it
        return []
    try:
        env = gymnasium.make(env_id)
    except (gymnasium.error.Error, ImportError):
        return []
    space = env.observation_space
    env.close()
    if not isinstance(space, gymnasium.spaces.Box) or space.shape != obs.shape[1:]:
        return []
    slack = 1e-3 * np.maximum(1.0, np.abs(obs).max(0))
    outside = int(((obs < space.low - slack) | (obs > space.high + slack)).any(1).sum())
    if not outside:
        return []
    text = (
        f"{outside} rows are none that {env_id} observes: scaled by a filter, or of another env. A policy that learns "
        "from them sees other numbers there"
    )
    return [CheckLine("observed", text, bad=True)]


def _rule(raw: Raw) -> list[CheckLine]:
    """Whether our termination rule says what the data say; left out where the env has none."""
    env_id, following = str(raw.metadata.get("env_id", "")), raw.arrays.get("next_observations")
    if not env_id or following is None:
        return []
    try:
        from rl_lightning.envs.termination import termination_for

        rule = termination_for(env_id)
    except (ImportError, ConfigError):
        return []
    says = rule(torch.from_numpy(following)).numpy().astype(bool)
    terminated = raw.arrays["terminals"]
    looked = terminated | ~raw.arrays["timeouts"]  # a file may note a time limit in place of the fall
    wrong = (says != terminated) & looked
    missed = int((wrong & terminated).sum())
    right, total = int((looked & ~wrong).sum()), int(looked.sum())
    text = f"{type(rule).__name__} agrees with the terminals in {right} of {total} rows"
    if wrong.any():
        text += f" (misses {missed} terminals, ends {int(wrong.sum()) - missed} that go on)"
    return [CheckLine("rule", text, bad=bool(wrong.mean() > 1e-3))]
