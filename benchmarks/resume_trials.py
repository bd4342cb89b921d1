"""Six things that happen to a training, done to one contender; each answers with what was seen, in words."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import resume_settings as settings

HERE = Path(__file__).resolve().parent
LIMIT = 600.0  # seconds of one process
FREE = 200_000  # bytes that a full disk has left: less than any checkpoint


class Result(NamedTuple):
    code: int
    text: str

    @property
    def last(self) -> str:
        """What was said at the end, without the machine's folders."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()] or ["nothing was said"]
        return " ".join(word if not word.startswith("/") else Path(word).name for word in lines[-1].split())[
            :110
        ]


class Contender(NamedTuple):
    """A library, its interpreter, its worker, and a folder of its own."""

    name: str
    python: str
    worker: str
    place: Path
    kills: int

    def start(self, task: str, rule: str, folder: Path, last: object, **env: str) -> subprocess.Popen[str]:
        folder.mkdir(parents=True, exist_ok=True)
        command = [self.python, str(HERE / self.worker), task, rule, str(folder), str(last)]
        one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
        return subprocess.Popen(command, env=os.environ | one | env, cwd=self.place, **pipes)  # type: ignore[call-overload,no-any-return]

    def call(self, task: str, rule: str, folder: Path, last: object, **env: str) -> Result:
        process = self.start(task, rule, folder, last, **env)
        try:
            text, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            return Result(-1, f"no answer in {LIMIT:.0f} s")
        return Result(process.returncode, text)

    def must(self, task: str, rule: str, folder: Path, last: object) -> None:
        done = self.call(task, rule, folder, last)
        if done.code:
            raise RuntimeError(f"{self.name}, {task} {rule}: exit {done.code}\n{done.text[-2000:]}")

    def straight(self, rule: str) -> dict[str, np.ndarray]:
        """What a run leaves that is never stopped; trained once."""
        folder = self.place / f"straight-{rule}"
        if not folder.exists():
            self.must("fit", rule, folder, settings.steps(rule)[0])
        return self.left(rule, folder)

    def left(self, rule: str, folder: Path) -> dict[str, np.ndarray]:
        """Asked once of each folder, and written beside it, since the folder may be a full disk."""
        file = self.place / f"{folder.name}.npz"
        if not file.exists():
            self.must("left", rule, folder, file)
        with np.load(file) as arrays:
            return dict(arrays)

    def against(self, rule: str, folder: Path) -> str:
        """The run in a folder beside the one that was never stopped."""
        return compare(self.straight(rule), self.left(rule, folder))


def compare(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> str:
    """`equal`, or what differs and by how much."""
    parts = [f"{name} {a[name]} and {b[name]}" for name in ("steps", "updates") if a[name] != b[name]]
    for group in ("weights", "optimizers", "replay", "env", "metrics", "generators"):
        keys = {key for key in a | b if group_of(key) == group}
        wrong = [key for key in keys if key not in a or key not in b or not same(a[key], b[key])]
        if wrong and group == "weights":
            parts.append(f"weights by {max(distance(a.get(key), b.get(key)) for key in wrong):.2g}")
        elif wrong:
            parts.append(group)
    return "differs: " + ", ".join(parts) if parts else "equal"


def group_of(key: str) -> str:
    group = key.partition("/")[0]
    return "optimizers" if group == "weights" and "optimizer" in key else group


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f")


def distance(a: np.ndarray | None, b: np.ndarray | None) -> float:
    if a is None or b is None or a.shape != b.shape or a.dtype.kind in "US":
        return float("inf")
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())


def twice(me: Contender) -> str:
    """Two runs of one seed that nobody stops: what the other answers are to be held against."""
    found = []
    for rule in ("ppo", "sac"):
        folder = me.place / f"again-{rule}"
        me.must("fit", rule, folder, settings.steps(rule)[0])
        found.append(f"{rule.upper()} {me.against(rule, folder)}")
    return "; ".join(found)


def stop(me: Contender) -> str:
    """Half of the budget, an orderly end, and the other half in a new process."""
    found = []
    for rule in ("ppo", "sac"):
        total, folder = settings.steps(rule)[0], me.place / f"stop-{rule}"
        me.must("fit", rule, folder, total // 2)
        done = me.call("resume", rule, folder, total)
        found.append(
            f"{rule.upper()} {me.against(rule, folder) if done.code == 0 else 'fails: ' + done.last}"
        )
    return "; ".join(found)


def names(folder: Path) -> set[str]:
    """What lies in the checkpoint folders, finished or not."""
    found: set[str] = set()
    for place, folders, files in os.walk(folder):
        if "checkpoint" in place:
            found.update(os.path.join(place, name) for name in (*folders, *files))
    return found


# what a checkpoint is called by each; ours gets its name when it is whole, the others' when their writing begins
CHECKPOINT = re.compile(r"(last-\d+/meta\.json|model_\d+_steps\.zip|ckpt_\d+_0\.ckpt)$")


def until_saving(process: subprocess.Popen[str], folder: Path, saves: int) -> bool:
    """Waits for that many checkpoints and then for the next new name there; False if the process ended before."""
    seen: set[str] = set()
    while process.poll() is None:
        new = names(folder) - seen
        if new and saves <= sum(bool(CHECKPOINT.search(name)) for name in seen):
            return True
        seen |= new
        time.sleep(0.0005)
    return False


def hit(me: Contender, folder: Path, number: int, dice: random.Random) -> tuple[int, set[str]]:
    """A run of SAC that gets a signal as it saves: exit code, and what lay there at that moment.

    Two checkpoints are waited for at least, so that everybody has a whole one to resume from.
    """
    process = me.start("fit", "sac", folder, settings.steps("sac")[0])
    if not until_saving(process, folder, dice.randrange(2, 5)):
        raise RuntimeError(f"{me.name}: over before the signal\n{process.communicate()[0][-2000:]}")
    time.sleep(dice.random() * 0.01)
    before = names(folder)
    process.send_signal(number)
    process.communicate(timeout=LIMIT)
    return process.returncode, before


def resumed(me: Contender, folder: Path) -> tuple[str, bool]:
    """Resumes SAC from its newest checkpoint, or from the one before: what came of it, and whether the newest did."""
    total = settings.steps("sac")[0]
    done = me.call("resume", "sac", folder, total)
    if done.code == 0:
        return me.against("sac", folder), True
    again = me.call("resume", "sac", folder, total, RL_RESUME_BACK="1")
    if again.code == 0:
        return f"newest fails ({done.last}), the one before: {me.against('sac', folder)}", False
    return f"fails: {done.last}", False


def kill(me: Contender) -> str:
    """kill -9 within 10 ms of something new in the checkpoint folder, then resume."""
    dice, good, equal, said = random.Random(settings.SEED), 0, 0, ""
    for turn in range(me.kills):
        folder = me.place / f"kill-{turn}"
        hit(me, folder, signal.SIGKILL, dice)
        answer, newest = resumed(me, folder)
        good, equal = good + newest, equal + (answer == "equal")
        said = said if answer == "equal" or (said and newest) else answer
    return f"newest resumes {good} of {me.kills}, equal {equal} of {me.kills}" + (
        f"; e.g. {said}" if said else ""
    )


def disk(me: Contender) -> str:
    """A disk that somebody else fills at half of the budget; resumed again when there is room."""
    folder, total = me.place / "disk", settings.steps("sac")[0]
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        return "not run: only root can mount a small file system"
    try:
        me.must("fit", "sac", folder, total // 2)
        ballast = folder / "ballast"
        space = os.statvfs(folder)
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, space.f_bavail * space.f_frsize - FREE)
        done = me.call("resume", "sac", folder, total)
        ballast.unlink()
        reason = "reason said" if "space" in done.text.lower() else "reason not said"
        return f"exit {done.code}, {reason}; then {resumed(me, folder)[0]}"
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def term(me: Contender) -> str:
    folder = me.place / "term"
    code, before = hit(me, folder, signal.SIGTERM, random.Random(settings.SEED))
    ended = f"exit {code}" if code >= 0 else "ended by the signal"
    saved = "saved" if names(folder) - before else "nothing saved"
    return f"{ended}, {saved}; resumed: {resumed(me, folder)[0]}"


def moved(me: Contender) -> str:
    folder, target = me.place / "moved", me.place / "elsewhere" / "moved"
    me.must("fit", "sac", folder, settings.steps("sac")[0] // 2)
    target.parent.mkdir()
    folder.rename(target)
    return resumed(me, target)[0]


def hostile(me: Contender) -> str:
    """A checkpoint whose pickle would make a folder, offered to resume."""
    folder, marker = me.place / "hostile", me.place / "marker"
    me.must("fit", "sac", folder, settings.steps("sac")[0] // 2)
    me.must("poison", "sac", folder, marker)
    assert not marker.exists(), "the marker came with the poison"
    done = me.call("resume", "sac", folder, settings.steps("sac")[0])
    return f"its code {'RAN' if marker.exists() else 'did not run'}; exit {done.code}" + (
        f": {done.last}" if done.code else ""
    )


TRIALS: dict[str, tuple[str, Callable[[Contender], str]]] = {
    "twice": ("never stopped, twice", twice),
    "stop": ("stopped at half, resumed", stop),
    "kill": ("kill -9 while saving", kill),
    "disk": ("disk full while saving", disk),
    "term": ("SIGTERM", term),
    "moved": ("folder moved", moved),
    "hostile": ("hostile checkpoint", hostile),
}


def attempt(trial: str, me: Contender) -> str:
    try:
        answer = TRIALS[trial][1](me)
    except Exception as error:  # one broken answer does not take the table away
        print(f"{me.name}, {trial}: {error}", file=sys.stderr)
        answer = f"could not be tried ({str(error).splitlines()[0][:80]})"
    print(f"  {trial}, {me.name}: {answer}", file=sys.stderr)
    return answer
