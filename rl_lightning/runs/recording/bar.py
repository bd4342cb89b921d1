"""How far a recording or a download is, on standard error."""

from __future__ import annotations

import sys
import time


class Bar:
    """How far something is: one line that is rewritten on a terminal, a line now and then elsewhere."""

    def __init__(self, unit: str, scale: float = 1.0) -> None:
        self.unit, self.scale = unit, scale
        self.began = self.shown = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if now - self.shown < (0.2 if terminal else 15.0) and not (terminal and done >= total > 0):
            return
        self.shown = now
        text = f"{done / self.scale:.0f}" + (f"/{total / self.scale:.0f}" if total else "") + f" {self.unit}"
        if total and done:
            text += f" · {(now - self.began) * (total - done) / done:.0f} s left"
        end = "" if terminal and done < total else "\n"
        print(
            f"\r{text}\x1b[K" if terminal else text,
            end=end if terminal else "\n",
            file=sys.stderr,
            flush=True,
        )
