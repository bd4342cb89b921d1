"""The one base class of all algorithms: runs the update rule over a block, keeps metrics, acts and evaluates."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning import interrupt
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.collect import Act
from rl_lightning.rollout.evaluate import StepCap, evaluate, summarize
from rl_lightning.seeding import derive
from rl_lightning.types import Block, Carry, EnvSpec, EpisodeStats, Transitions

if TYPE_CHECKING:
    from rl_lightning.models.provided import Provided

Metrics = dict[str, Tensor]


class RLModule(LightningModule):
    """Base of the algorithms. A subclass defines `act`, `update` and `configure_optimizers`.

    Args:
        spec: What the env or data set is like; filled in from the data.
    """

    gamma = 0.99
    n_step = 1
    members = 0  # parts that may each be given rows of their own (data.bootstrap); 0: all learn from the same
    acts = True  # False: a model of something; it is assessed on held-out rows instead of played
    looks_by_passes = False  # evaluated by passes over the data until the first regular evaluation
    models_next_obs = False  # True: learns what is observed next, so rows that do not tell it are left out
    newest_is_best = False  # of a model: evaluations do not rank it, the newest weights are its best
    explores_in_evaluation = False
    action_kinds: tuple[str, ...] = ("continuous", "discrete", "multi_discrete")

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.spec = spec
        self.phase: Any = None  # in a phase: its fields and progress
        self.progress = 0.0  # share of the budget spent when the current block began
        self._sums: Metrics = {}
        self._counts: dict[str, int] = {}
        if spec.action_kind not in self.action_kinds:
            kinds = " or ".join(kind.replace("_", "-") for kind in self.action_kinds)
            raise ConfigError(
                f"{type(self).__name__} needs {kinds} actions; {spec.env_id} has {spec.action_kind.replace('_', '-')} "
                f"ones. See: rl list algorithms"
            )

    def act(
        self, obs: Tensor, carry: Carry, explore: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        """Actions for N observations: greedy if `explore` is None, else drawn from it."""
        raise TypeError(f"{type(self).__name__} must define act(obs, carry, explore, mask)")

    def update(self, batch: Any) -> Metrics:
        """One round of the update rule. `priority` and `latent` go back to the buffer, other metrics are logged."""
        raise TypeError(f"{type(self).__name__} must define update(batch)")

    def assess(self, data: Any) -> dict[str, float]:
        """What a module that does not act is worth on held-out rows; `eval/score`, higher is better, ranks it."""
        raise TypeError(f"{type(self).__name__} must define assess(data)")

    def heed(self, metrics: dict[str, float]) -> None:
        """Told of each assessment in training; a model keeps its best weights here, and counts its patience."""

    @property
    def finished(self) -> bool:
        """True ends the run before its budget: nothing more is to be gained."""
        return False

    @property
    def policy_trained(self) -> bool:
        """False while the policy is still the one it was started from: its evaluations are no score of this run."""
        return True

    def caution(self) -> str | None:
        """What somebody who reads this model's result must be told of it, e.g. that it is not final."""
        return None

    def report(self, data: Any) -> dict[str, Any]:
        """What `rl test` says of a module that does not act: numbers, perhaps in groups."""
        return dict(self.assess(data))

    def predict_rows(self, rows: Transitions) -> dict[str, np.ndarray]:
        """What `rl predict` writes of a module that does not act, for rows of a data set."""
        raise ConfigError(f"{type(self).__name__} predicts nothing for rows of data")

    def borrowed(self) -> dict[str, nn.Module]:
        """Frozen modules of earlier stages' products that `act` goes through; no checkpoint of this one holds them."""
        return {}

    def provides(self) -> dict[str, Provided]:
        """What later stages may take from this one's product, by name."""
        return {}

    @classmethod
    def update_hooks(cls) -> list[str]:
        """The methods that phases may call: `update`, if the class defines it, and every `update_...`."""
        named = [name for name in dir(cls) if name.startswith("update_") and name != "update_hooks"]
        return [*(["update"] if cls.update is not RLModule.update else []), *named]

    def controller(self, role: str) -> Act:
        """Who acts under a role that a phase names: the agent itself, or a method `act_<role>` of the module."""
        if role == "agent":
            return self.act
        roles = [name.removeprefix("act_") for name in dir(type(self)) if name.startswith("act_")]
        if role not in roles:
            known = ", ".join(["agent", "random", *roles])
            raise ConfigError(f"{type(self).__name__} has no controller '{role}'; there are {known}")
        return getattr(self, f"act_{role}")  # type: ignore[no-any-return]

    def initial_carry(self, count: int) -> Carry:
        """The recurrent state of `count` envs at the start of an episode: zeros, or nothing."""
        return ()

    def raw_optimizers(self) -> list[Optimizer]:
        """The optimizers in the order of `configure_optimizers`, without Lightning's wrapper (0.1 ms a step)."""
        found = self.optimizers(use_pl_optimizer=False)
        return found if isinstance(found, list) else [found]

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Blocks are made on the CPU: there Lightning need not look at every tensor of each."""
        if device.type == "cpu":
            return batch
        return super().transfer_batch_to_device(batch, device, dataloader_idx)

    def training_step(self, block: Block, batch_idx: int) -> None:
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        self.phase = data.view
        rule = getattr(self, block.hook)
        if callable(block.batch):
            return self._learn_between(block, rule, data)
        priorities = []
        for u in range(block.updates):
            interrupt.poll()
            metrics = rule(pick(block.batch, u) if block.stacked else block.batch)
            if "priority" in metrics:
                priorities.append(metrics.pop("priority"))
            self.record(metrics)
        data.schedule.update += block.updates
        if priorities and block.batch is not None:
            data.feedback(block, torch.stack(priorities))

    def _learn_between(self, block: Block, rule: Any, data: Any) -> None:
        """Of a block whose batches are not there yet: each is collected and drawn when the one before was learned."""
        mixed = torch.is_autocast_enabled(self.device.type)  # entering a context costs more than asking
        for _ in range(block.updates):
            interrupt.poll()
            with torch.autocast(self.device.type, enabled=False) if mixed else nullcontext():
                batch = block.batch()
            batch = self.transfer_batch_to_device(batch, self.device, 0)
            metrics = rule(batch)
            data.schedule.update += 1
            if "priority" in metrics:
                data.feedback(block._replace(batch=batch), metrics.pop("priority"))
            if "latent" in metrics:
                data.remember(block._replace(batch=batch), metrics.pop("latent"))
            self.record(metrics)

    def record(self, metrics: Metrics) -> None:
        """Adds to the running means; nothing is converted or logged here."""
        for name, value in metrics.items():
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"{type(self).__name__} returned {value!r} as {name}; metrics are scalar tensors"
                )
            value = value.detach()
            self._sums[name] = self._sums[name] + value if name in self._sums else value
            self._counts[name] = self._counts.get(name, 0) + 1

    def metrics_state(self) -> dict[str, Any]:
        """The running means, for a checkpoint between two emissions."""
        return {"sums": {k: v.cpu() for k, v in self._sums.items()}, "counts": dict(self._counts)}

    def load_metrics_state(self, state: dict[str, Any]) -> None:
        self._sums = {k: v.to(self.device) for k, v in state["sums"].items()}
        self._counts = dict(state["counts"])

    def drain_metrics(self) -> dict[str, float]:
        """Means since the last call."""
        means = {name: float(total) / self._counts[name] for name, total in self._sums.items()}
        self._sums, self._counts = {}, {}
        return means

    def play(
        self, envs: Any, episodes: int, seed: int, max_steps: int | None = None, longest: int = 0
    ) -> list[EpisodeStats]:
        """Plays whole episodes and leaves no trace: own generator, eval mode, no gradient. See StepCap for the rest."""
        explore = self.evaluation_draw(seed)
        modes = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            with torch.random.fork_rng(devices=[]):
                cap = StepCap(envs, max_steps, longest)
                return evaluate(self.player(), self.initial_carry, envs, episodes, seed, explore, cap)
        finally:
            for module, training in modes:
                module.training = training

    def evaluation_draw(self, seed: int) -> torch.Generator | None:
        """What `act` is given wherever a finished policy acts: None for a greedy one, else where it draws from."""
        return torch.Generator().manual_seed(derive(seed, "play")) if self.explores_in_evaluation else None

    def onlooker(self) -> Callable[[Tensor], list[np.ndarray]] | None:
        """For a film: told of every observation [1, *O] of one episode, returns pictures [H, W, 3] to lay beside it."""
        return None

    def player(self, role: str = "agent") -> Act:
        """Who acts under a role, taking observations from wherever envs leave them to the module's device."""
        act = self.controller(role)
        if self.device.type == "cpu":
            return act

        def on_device(
            obs: Tensor, carry: Carry, explore: torch.Generator | None, mask: Tensor | None = None
        ) -> tuple[Tensor, Carry]:
            return act(obs.to(self.device), carry, explore, None if mask is None else mask.to(self.device))

        return on_device

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._evaluate_once()

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self._evaluate_once()

    @torch.no_grad()
    def _evaluate_once(self) -> None:
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        if not self.acts:
            self.assessed = self.report(data)
            return
        run = data.schedule.run
        envs = data.eval_envs(run.eval_episodes)
        if envs is None:
            self.evaluated = None
            return
        self.evaluated = self.play(envs, run.eval_episodes, derive(data.seed, "test"), run.eval_max_steps)
        self.log_dict(summarize(self.evaluated), batch_size=1)


def pick(batch: Any, u: int) -> Any:
    """Batch u of a block: the same NamedTuple, without the first axis."""
    return type(batch)(*(None if field is None else field[u] for field in batch))
