"""RealNVP's held-out likelihood against zuko's at equal updates, width, batch and learning rate.

    rl data make local/hopper-medium
    .venv/bin/python benchmarks/flows.py [--seeds 3] [--updates 3000]

Rows are (next observation, action), a tenth of them held out. Both flows have 6 couplings of 256 x 256, Adam at 1e-3,
batches of 256 in the same order, and gradients clipped at 5. At a constant learning rate the likelihood moves by a nat
between evaluations, so a seed's figure is the mean over the last third, one every 50 updates. zuko has its own venv.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peers
import torch
from run import play, worker
from torch import Tensor

DATASET, COUPLINGS, HIDDEN, BATCH, LR, CLIP = "local/hopper-medium", 6, 256, 256, 1e-3, 5.0
HELD = 3000  # held-out rows that are scored


def write_rows(file: Path) -> None:
    """The rows of the data set, for both contenders: a peer's venv has no reader of ours."""
    from rl_lightning.datasets import load_dataset

    data = load_dataset(DATASET)
    np.save(file, torch.cat((data.next_obs, data.action), 1).numpy())


def zuko_flow(train: Tensor) -> tuple[Callable[[Tensor], Tensor], list[Any]]:
    import zuko  # type: ignore[import-not-found]

    std, mean = (part.float() for part in torch.std_mean(train.double(), 0))
    flow = zuko.flows.RealNVP(train.shape[1], transforms=COUPLINGS, hidden_features=(HIDDEN, HIDDEN))

    def log_prob(x: Tensor) -> Tensor:
        return flow().log_prob((x - mean) / std) - std.log().sum()  # type: ignore[no-any-return]

    return log_prob, list(flow.parameters())


def fit(who: str, file: str, seed: int, updates: int) -> float:
    """The mean held-out log-likelihood over the last third of a fit."""
    torch.set_num_threads(1)
    rows = torch.from_numpy(np.load(file))
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    held, train = rows[order[: len(rows) // 10]][:HELD], rows[order[len(rows) // 10 :]]
    torch.manual_seed(seed)
    if who == "zuko":
        score, parameters = zuko_flow(train)

        def loss(x: Tensor) -> Tensor:
            return -score(x).mean()
    else:
        from rl_lightning.models.density import RealNVP

        net = RealNVP(rows.shape[1], num_couplings=COUPLINGS, hidden_dims=[HIDDEN, HIDDEN])
        net.fit_statistics(train)
        score, loss, parameters = net.score, net.loss, list(net.parameters())
    optimizer, draw, told = torch.optim.Adam(parameters, LR), torch.Generator().manual_seed(seed), []
    for update in range(1, updates + 1):
        optimizer.zero_grad()
        loss(train[torch.randint(len(train), (BATCH,), generator=draw)]).backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        if 3 * update > 2 * updates and update % 50 == 0:
            with torch.no_grad():
                told.append(score(held).mean().item())
    return statistics.mean(told)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument(
        "--worker", nargs=2, metavar=("WHO", "FILE"), help="one fit of one contender, as JSON"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.worker:
        who, file = options.worker
        print(json.dumps({"nats": fit(who, file, options.seed, options.updates)}))
        return
    pythons = {"ours": sys.executable, "zuko": peers.python_of("zuko")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.npy"
        write_rows(file)
        for seed in range(options.seeds):
            for who, python in pythons.items():
                how = ["--worker", who, str(file), "--seed", str(seed), "--updates", str(options.updates)]
                found = None if python is None else play(worker(python, "flows.py", *how))
                print(
                    f"seed {seed}  {who}: {found['nats']:.3f} nats" if found else f"{who}: failed", flush=True
                )


if __name__ == "__main__":
    main()
