"""pipeline.json: what is done, from what, and what it left. Written whole at every change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rl_lightning.errors import ResumeError
from rl_lightning.io.atomic import write_json

Entry = dict[str, Any]


class Ledger:
    """The state of every job of a pipeline.

    Args:
        path: pipeline.json of the run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Entry]:
        try:
            content = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ResumeError(f"{self.path}: cannot be read ({error})") from None
        if not isinstance(content, dict) or not isinstance(content.get("jobs"), dict):
            raise ResumeError(f"{self.path}: is not a ledger of a pipeline")
        return dict(content["jobs"])

    def set(self, key: str, **fields: Any) -> None:
        jobs = self.read()
        jobs[key] = {**jobs.get(key, {}), **fields}
        write_json(self.path, {"jobs": jobs})

    def forget(self, keys: list[str]) -> None:
        write_json(self.path, {"jobs": {k: v for k, v in self.read().items() if k not in keys}})
