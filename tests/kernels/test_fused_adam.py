"""Our fused Adam against torch's, step by step, across a save and a load."""

import io

import torch
from torch import nn

from rl_lightning.kernels.fused_adam import FusedAdam

OPTIONS = {"lr": 0.05, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.01}


def made(kind: type[torch.optim.Adam]) -> tuple[list[nn.Parameter], torch.optim.Adam]:
    params = [nn.Parameter(torch.full(shape, 0.5)) for shape in ((3, 2), (4,), ())]
    return params, kind([{"params": params[:2]}, {"params": params[2:], "lr": 0.1}], fused=True, **OPTIONS)


def move(
    params: list[nn.Parameter], optimizer: torch.optim.Adam, seed: int, left_out: int | None = None
) -> None:
    g = torch.Generator().manual_seed(seed)
    for k, param in enumerate(params):
        param.grad = None if k == left_out else torch.randn(param.shape, generator=g)
    optimizer.step()


def test_same_weights_counts_and_checkpoints_as_torchs():
    ours, theirs = made(FusedAdam), made(torch.optim.Adam)
    for seed in range(12):
        if seed == 6:  # through a file, as a resumed run
            file = io.BytesIO()
            torch.save(ours[1].state_dict(), file)
            file.seek(0)
            params, optimizer = made(FusedAdam)
            for new, old in zip(params, ours[0], strict=True):
                new.data.copy_(old.data)
            optimizer.load_state_dict(torch.load(file, weights_only=True))
            ours = params, optimizer
        for pair in (ours, theirs):  # a parameter without a gradient stays, and its count with it
            move(*pair, seed, left_out=1 if seed in (3, 8) else None)
    for found, expected in zip(ours[0], theirs[0], strict=True):
        assert torch.equal(found, expected)
    mine, other = (pair[1].state_dict()["state"] for pair in (ours, theirs))
    assert [int(s["step"]) for s in mine.values()] == [12, 10, 12]
    for key, state in other.items():
        assert all(torch.equal(mine[key][name], value) for name, value in state.items())
