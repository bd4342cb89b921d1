"""Data-parallel training without a wrapper: `step` averages exactly the gradients that are used."""

from __future__ import annotations

import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy


class AveragingDDP(DDPStrategy):
    """Lightning's DDP strategy, launching and communicating as it does, with the model left as it is.

    Torch's wrapper counts one backward per forward, and our rules make several of different parts; it would have to
    search the graph for unused parameters each time. `step` sends only what its optimizer is about to use.
    """

    def configure_ddp(self) -> None:
        """All ranks start from rank 0's weights and buffers."""
        assert self.model is not None
        for tensor in self.model.state_dict().values():
            dist.broadcast(tensor, src=0)
