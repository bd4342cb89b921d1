"""Curves as SVG that stands inside a page: drawn here, so that a report needs no picture files and no fonts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from rl_lightning.analysis.plot import Band, plain_label, style
from rl_lightning.analysis.stats_table import printable
from rl_lightning.io.text import short

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 14, 44
LEGEND = 20  # height of one line of it


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between two others."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(scale * factor for factor in (1, 2, 2.5, 5, 10) if scale * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    found = [first * step + i * step for i in range(int((high - first * step) / step + 1e-9) + 1)]
    return [0.0 if abs(value) < step * 1e-9 else value for value in found]


def curves(bands: Sequence[Band], metric: str) -> str:
    """One picture: means as lines, intervals as areas, a legend below."""
    xs = [x for band in bands for x in band.x]
    ys = [y for band in bands for y in (*band.low, *band.high)]
    x_low, x_high, y_low, y_high = min(xs), max(xs), min(ys), max(ys)
    pad = (y_high - y_low) * 0.04 or abs(y_high) * 0.05 or 1.0
    y_low, y_high = y_low - pad, y_high + pad
    x_high = x_high if x_high > x_low else x_low + 1.0

    def place(x: float, y: float) -> str:
        across = LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)
        down = TOP + (y_high - y) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)
        return f"{across:.1f},{down:.1f}"

    height = HEIGHT + LEGEND * len(bands) + 8
    about = escape(f"{printable(metric)} against {printable(bands[0].clock)}")
    parts = [
        f'<svg class="curve" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{about}">'
        f"<title>{about}</title>"
    ]
    for y in ticks(y_low, y_high):
        down = place(x_low, y).split(",")[1]
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down}" y2="{down}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 6}" y="{down}" dy="4" text-anchor="end">{short(y)}</text>'
        )
    for x in ticks(x_low, x_high):
        across = place(x, y_low).split(",")[0]
        below = HEIGHT - BOTTOM + 16
        parts.append(f'<text class="tick" x="{across}" y="{below}" text-anchor="middle">{short(x)}</text>')
    floor = HEIGHT - BOTTOM
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor}" y2="{floor}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    clock = escape(printable(bands[0].clock))
    parts.append(f'<text class="tick" x="{middle:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{clock}</text>')
    for number, band in enumerate(bands):
        parts += _draw(band, number, place)
    return "".join([*parts, "</svg>"])


def _draw(band: Band, number: int, place: Callable[[float, float], str]) -> list[str]:
    colour, dashes = style(number)
    dash = f' stroke-dasharray="{" ".join(map(str, dashes))}"' if dashes else ""
    label = escape(printable(plain_label(band)))
    parts = []
    if band.runs > 1:
        upper = [place(x, y) for x, y in zip(band.x, band.high, strict=True)]
        lower = [place(x, y) for x, y in zip(band.x, band.low, strict=True)]
        parts.append(
            f'<polygon fill="{colour}" fill-opacity="0.16" points="{" ".join(upper + lower[::-1])}"/>'
        )
    line = [place(x, y) for x, y in zip(band.x, band.y, strict=True)]
    if len(line) == 1:
        across, height = line[0].split(",")
        parts.append(
            f'<circle cx="{across}" cy="{height}" r="4" fill="{colour}"><title>{label}</title></circle>'
        )
    shape = f'fill="none" stroke="{colour}" stroke-width="2"{dash}'
    parts.append(f'<polyline {shape} points="{" ".join(line)}"><title>{label}</title></polyline>')
    down = HEIGHT + LEGEND * number + 8
    parts.append(f'<line x1="{LEFT}" x2="{LEFT + 36}" y1="{down}" y2="{down}" {shape}/>')
    parts.append(f'<text class="legend" x="{LEFT + 44}" y="{down + 4}">{label}</text>')
    return parts
