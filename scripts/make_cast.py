"""Records a real terminal session and draws it as one animated SVG: docs/cast.svg.

    python scripts/make_cast.py [--output docs/cast.svg] ["rl fit --config ppo/cartpole" "rl plot ppo-cartpole-1"]

The commands run in a scratch folder behind a pseudo terminal. What they print is kept with its times, replayed on a
small screen, and played faster where it took long; the title says how much. No network, no fonts, no script.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import shlex
import struct
import tempfile
import time
from fcntl import ioctl
from html import escape
from pathlib import Path
from termios import TIOCSWINSZ
from typing import NamedTuple

DOCS = Path(__file__).parents[1] / "docs"
COMMANDS = ["rl fit --config ppo/cartpole --env_steps 50000", "rl plot ppo-cartpole-1"]
COLUMNS, ROWS = 120, 28
LONGEST = 14.0  # seconds that one command is played for
STEP = 0.25  # seconds between two frames
REST = 4.0  # seconds that the last frame stays
WIDE, HIGH = 7.8, 17  # pixels of a character
_CODE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>]")


class Frame(NamedTuple):
    """What stood on the screen from a moment on."""

    at: float
    lines: tuple[str, ...]


class Screen:
    """As much of a terminal as a progress bar needs: lines, carriage returns, and a cursor that goes up."""

    def __init__(self) -> None:
        self.lines, self.row, self.column = [""], 0, 0

    def feed(self, text: str) -> None:
        place = 0
        while place < len(text):
            code = _CODE.match(text, place)
            if code:
                self._obey(code.group(1) or "", code.group(2) or "")
                place = code.end()
                continue
            self._write(text[place])
            place += 1

    def _obey(self, number: str, letter: str) -> None:
        count = int(number) if number.isdigit() else 1
        if letter == "A":
            self.row = max(0, self.row - count)
        elif letter == "K":
            keep = "" if number == "2" else self.lines[self.row][: self.column]
            self.lines[self.row] = keep

    def _write(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append("")
        elif character.isprintable():
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = (line[: self.column] + character + line[self.column + 1 :])[:COLUMNS]
            self.column += 1

    def shown(self) -> tuple[str, ...]:
        return tuple(line.rstrip() for line in self.lines[-ROWS:])


def record(command: str, folder: str) -> list[tuple[float, str]]:
    """What a command prints on a terminal, and when."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        words = shlex.split(command)
        os.execvpe(
            words[0], words, {**os.environ, "TERM": "xterm", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        )
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began, heard, rest = time.monotonic(), [], b""
    while True:
        select.select([terminal], [], [])
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other end has closed
            break
        if not data:
            break
        data = rest + data
        text = data.decode("utf-8", "ignore")
        rest = data[len(text.encode()) :] if len(data) - len(text.encode()) < 4 else b""
        heard.append((time.monotonic() - began, text))
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit(f"{command}: failed\n" + "".join(text for _, text in heard))
    return heard


def play(commands: list[str], folder: str) -> tuple[list[Frame], float]:
    """Frames of the whole session, and how many times faster than real it goes at its fastest."""
    screen, now, fastest = Screen(), 0.0, 1.0
    frames: list[Frame] = []
    for command in commands:
        screen.feed("$ ")
        for part in re.findall(r".{1,7}", command):  # typed
            screen.feed(part)
            frames.append(Frame(now, screen.shown()))
            now += 0.12
        screen.feed("\r\n")
        heard = record(command, folder)
        took = heard[-1][0] if heard else 0.0
        speed = max(1.0, took / LONGEST)
        fastest = max(fastest, speed)
        for at, text in heard:
            screen.feed(text)
            frame = Frame(now + at / speed, screen.shown())
            if frames and frame.at - frames[-1].at < STEP:
                frames[-1] = Frame(frames[-1].at, frame.lines)
            elif frame.lines != frames[-1].lines:
                frames.append(frame)
        now += took / speed + 0.8
        frames.append(Frame(now, screen.shown()))
    return frames, fastest


def drawn(frames: list[Frame], title: str) -> str:
    """One SVG; each frame is visible for its share of the time, and all begin anew at the end."""
    total = frames[-1].at + REST
    width, height = int(COLUMNS * WIDE + 32), ROWS * HIGH + 56
    rules, groups = [], []
    for i, frame in enumerate(frames):
        start = 100 * frame.at / total
        end = 100 * (frames[i + 1].at / total) if i + 1 < len(frames) else 100.0
        before = "" if start == 0 else f"0%{{opacity:0}}{start - 1e-3:.3f}%{{opacity:0}}"
        after = "" if end == 100 else f"{end:.3f}%{{opacity:0}}100%{{opacity:0}}"
        rules.append(
            f"@keyframes f{i}{{{before}{start:.3f}%{{opacity:1}}{end - 1e-3:.3f}%{{opacity:1}}{after}}}"
            f"#f{i}{{animation:f{i} {total:.2f}s infinite step-end}}"
        )
        groups.append(
            f'<g id="f{i}">{"".join(text_of(row, line) for row, line in enumerate(frame.lines))}</g>'
        )
    style = (
        "text{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#d7dce2;white-space:pre}"
        ".p{fill:#56b4e9}.b{fill:#009e73}.t{fill:#8b949e;font-size:12px}g{opacity:0}"
        f"@media (prefers-reduced-motion){{g{{animation:none!important}}#f{len(frames) - 1}{{opacity:1}}}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
        f"<title>{escape(title)}</title><style>{style}{''.join(rules)}</style>"
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>'
        f'<text class="t" x="16" y="24">{escape(title)}</text>{"".join(groups)}</svg>\n'
    )


def text_of(row: int, line: str) -> str:
    if not line:
        return ""
    text = escape(line, quote=False)
    if line.startswith("$ "):
        text = f'<tspan class="p">$</tspan>{text[1:]}'
    text = re.sub(r"━+", lambda bar: f'<tspan class="b">{bar.group(0)}</tspan>', text)
    return f'<text x="16" y="{52 + row * HIGH}" xml:space="preserve">{text}</text>'


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commands", nargs="*", default=COMMANDS)
    parser.add_argument("--output", type=Path, default=DOCS / "cast.svg")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        frames, fastest = play(options.commands, folder)
    faster = f", played up to {fastest:.0f} times faster" if fastest > 1.5 else ""
    options.output.write_text(drawn(frames, f"a real session{faster}"), encoding="utf-8")
    size = options.output.stat().st_size
    assert size < 1_000_000, size
    print(f"{options.output}: {len(frames)} frames, {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
