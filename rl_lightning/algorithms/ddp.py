"""Data-parallel training without a wrapper: `step` averages exactly the gradients that are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from lightning.fabric.utilities.distributed import _set_num_threads_if_needed
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.strategies.launchers.subprocess_script import _SubprocessScriptLauncher

from rl_lightning import distributed


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

    def _configure_launcher(self) -> None:
        super()._configure_launcher()
        if isinstance(self._launcher, _SubprocessScriptLauncher):
            assert self.cluster_environment is not None
            self._launcher = WatchingLauncher(self.cluster_environment, self.num_processes, self.num_nodes)


class WatchingLauncher(_SubprocessScriptLauncher):
    """Lightning's launcher; where a process dies, the first one is left the time to say which, and to close its run."""

    def launch(self, function: Callable[..., Any], *args: Any, trainer: Any = None, **kwargs: Any) -> Any:
        environment = self.cluster_environment
        environment.validate_settings(num_devices=self.num_processes, num_nodes=self.num_nodes)
        if not environment.creates_processes_externally:
            self._call_children_scripts()
        _set_num_threads_if_needed(num_processes=self.num_processes)
        with distributed.watch(self.procs):
            return function(*args, **kwargs)
