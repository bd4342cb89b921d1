"""Envs in worker processes: Gymnasium's AsyncVectorEnv under the contract of `vector.Envs`."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from rl_lightning.envs.adapter import EnvAdapter
from rl_lightning.envs.vector import Array, Envs, Infos, Seeds, spread_seeds
from rl_lightning.errors import EnvError, RLError
from rl_lightning.types import EnvSpec


class AsyncEnvs(Envs, AsyncVectorEnv):
    """One worker process per env; a worker that raises, dies or hangs becomes an EnvError that names it.

    Args:
        makers: one function per env, called in its worker (and the first once here, for the spaces).
        env_spec: what the envs look like.
        timeout: seconds to wait for a worker before it counts as hung.
        start_method: of multiprocessing; the system's default if none.
    """

    def __init__(
        self,
        makers: Sequence[Callable[[], EnvAdapter]],
        env_spec: EnvSpec,
        timeout: float = 300.0,
        start_method: str | None = None,
    ) -> None:
        self.timeout = timeout
        self.env_spec = env_spec
        try:
            AsyncVectorEnv.__init__(
                self,
                makers,
                shared_memory=True,
                copy=False,
                context=start_method,
                autoreset_mode=AutoresetMode.SAME_STEP,
            )
        except (EOFError, ConnectionError) as error:
            raise EnvError(f"{env_spec.env_id}: a worker died while it made its env") from error
        self._prepare(self.num_envs, env_spec)

    def reset(self, *, seed: Seeds = None, options: dict[str, Any] | None = None) -> tuple[Array, Infos]:
        seeds = spread_seeds(seed, self.num_envs)
        if seeds[0] is not None:
            self.action_space.seed(seeds[0])
        answers = self._ask([("reset", {"seed": value, "options": options}) for value in seeds])
        if self._mask is not None:
            for i, (_, info) in enumerate(answers):
                self._mask[i] = info["action_mask"]
        self._check(self.observations, ())
        return self.observations, self._infos([], self.observations)

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, Infos]:
        _, rewards, terminations, truncations, env_infos = zip(
            *self._ask([("step", action) for action in actions]), strict=True
        )
        self._check(self.observations, rewards)
        ended = []
        for i, info in enumerate(env_infos):
            if "final_obs" in info:
                ended.append((i, info["final_obs"], info["final_info"]))
            if self._mask is not None:
                self._mask[i] = info["action_mask"]
        infos = self._infos(ended, self.observations)
        self.steps += 1
        return (
            self.observations,
            np.array(rewards, np.float32),
            np.array(terminations, np.bool_),
            np.array(truncations, np.bool_),
            infos,
        )

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return tuple(self._ask([("_call", (name, args, kwargs))] * self.num_envs))

    def call_each(self, name: str, values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self._ask([("_call", (name, (value,), {})) for value in values]))

    def _ask(self, messages: Sequence[tuple[str, Any]]) -> list[Any]:
        """Send each worker its message and wait for all answers."""
        for i, message in enumerate(messages):
            try:
                self.parent_pipes[i].send(message)
            except (ConnectionError, OSError):
                self._dead(i)
        deadline = time.monotonic() + self.timeout
        return [self._receive(i, deadline) for i in range(self.num_envs)]

    def _receive(self, i: int, deadline: float) -> Any:
        pipe = self.parent_pipes[i]
        try:
            if not pipe.poll(max(deadline - time.monotonic(), 0.0)):
                self._fail(f"did not answer within {self.timeout:g} s", i)
            answer, succeeded = pipe.recv()
        except (EOFError, ConnectionError):
            self._dead(i)
        if not succeeded:
            index, _, error, _ = self.error_queue.get(timeout=10.0)
            self.close(terminate=True)
            if isinstance(error, RLError):
                raise error
            raise EnvError(
                f"{self.env_spec.env_id} (env {index}) raised at step {self.steps}: "
                f"{type(error).__name__}: {error}"
            )
        return answer

    def _dead(self, i: int) -> NoReturn:
        process = self.processes[i]
        process.join(timeout=2.0)
        code = process.exitcode
        reason = f"exit code {code}"
        if code is not None and code < 0:
            reason = f"signal {-code} ({signal.Signals(-code).name})"
            if -code == signal.SIGKILL:
                reason += ", likely out of memory"
        self._fail(f"died at step {self.steps}: {reason}", i)

    def _fail(self, what: str, i: int) -> NoReturn:
        message = f"{self.env_spec.env_id}: environment worker {i} (pid {self.processes[i].pid}) {what}"
        self.close(terminate=True)
        raise EnvError(message)

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        if terminate or not all(process.is_alive() for process in self.processes):
            for process in self.processes:
                process.kill()  # a hung worker may not answer SIGTERM
            terminate = True
        AsyncVectorEnv.close_extras(self, timeout, terminate)
