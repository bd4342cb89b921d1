"""Two processes by a script's own `strategy="ddp"`, and by torchrun: equal weights, reduced metrics."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = """
import sys
sys.path[:0] = {paths!r}
import torch
from lightning.pytorch import Trainer
from trainer_parts import PARTS, QUIET
from lightning.pytorch import seed_everything

if __name__ == "__main__":
    name, out = sys.argv[1:3]
    seed_everything(0, verbose=False)
    part = PARTS[name]
    data = part.data(eval_episodes=4)
    model = part.model(data.spec)
    trainer = Trainer(**QUIET, devices=2, strategy="ddp", max_epochs=2)
    trainer.fit(model, datamodule=data)
    kept = dict(weights=model.state_dict(), step=trainer.global_step, env_step=data.clock.env_step,
                eval={{k: float(v) for k, v in trainer.callback_metrics.items() if not k.startswith("time/")}})
    torch.save(kept, f"{{out}}/{{trainer.global_rank}}.pt")
"""
TESTS = Path(__file__).parent.parent


def check(name: str, folder: Path, launcher: list[str]) -> None:
    script = folder / "script.py"
    script.write_text(SCRIPT.format(paths=[str(TESTS.parent), str(TESTS), str(TESTS / "lightning")]))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RL_", "PYTEST", "LOCAL_RANK"))}
    done = subprocess.run(
        [*launcher, str(script), name, str(folder)], env=clean | {"OMP_NUM_THREADS": "1"}, capture_output=True,
        text=True, timeout=240, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = (torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert all(torch.equal(one["weights"][key], two["weights"][key]) for key in one["weights"])
    assert (one["step"], one["env_step"]) == (two["step"], two["env_step"]) and one["step"] > 0
    assert one["eval"] == two["eval"] and one["eval"]["eval/episodes"] == 4


def test_two_processes_from_a_script(tmp_path):
    check("ppo", tmp_path, [sys.executable])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sac", "dqn", "iql", "dreamer"])
def test_two_processes_of_the_others(name, tmp_path):
    check(name, tmp_path, [sys.executable])


@pytest.mark.slow
def test_torchrun(tmp_path):
    check(
        "dqn", tmp_path, [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    )
