"""A made-up patient on a made-up circulatory-support device: the generator of our synthetic clinical data."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

SIGNALS = (
    "mean_pressure", "systolic", "diastolic", "heart_rate", "filling_pressure", "flow", "pulsatility", "pump_speed",
    "pump_current", "oxygen_saturation", "lactate", "free_hemoglobin",
)  # fmt: skip
LEVELS = (2.0, 9.0)  # of support
TARGET = 75.0  # mmHg of mean pressure
START = np.array([0.45, 0.75, 0.6, 0.4, 3.0, 20.0])
SPREAD = np.array([0.08, 0.08, 0.08, 0.1, 0.8, 5.0])
LEAST = np.array([0.05, 0.35, 0.15, 0.0, 0.5, 5.0])
MOST = np.array([0.95, 1.2, 1.0, 1.0, 15.0, 120.0])
DRIFT = np.array([0.004, 0.008, 0.01, 0.0, 0.0, 0.0])  # of a step, at random
SENSORS = np.array([1.5, 2.0, 1.5, 2.0, 0.7, 0.08, 1.5, 0.2, 8.0, 1.0, 0.08, 1.0])


class Regime(NamedTuple):
    """Where a patient is going.

    Args:
        contractility: Change of the heart's own strength in a step.
        resistance: Change of the vessels' in a step.
        chance: How many patients begin so.
    """

    contractility: float
    resistance: float
    chance: float


REGIMES = {
    "recovering": Regime(0.006, 0.001, 0.35),
    "stable": Regime(0.0, 0.0, 0.4),
    "declining": Regime(-0.006, -0.004, 0.25),
}
SWITCH = 0.01  # chance that a step changes the regime


class Clinic(gymnasium.Env[Any, Any]):
    """Nobody's physiology: twelve signals that hang together plausibly, one action (the level of support, 2 to 9, every
    ten minutes for eight hours), and three regimes that no signal names. The reward is near 1 where pressure is right,
    and less where the heart is congested, tissue starves, blood is damaged or support is higher than it need be.

    Args:
        render_mode: None; it cannot draw.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own pattern)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-np.inf, np.inf, (len(SIGNALS),), np.float32)
        self.action_space = spaces.Box(LEVELS[0], LEVELS[1], (1,), np.float32)
        # contractility, resistance, volume, support, lactate, free hemoglobin
        self.state = START.copy()
        self.regime = 1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        chances = [regime.chance for regime in REGIMES.values()]
        self.regime = int(self.np_random.choice(len(REGIMES), p=chances))
        self.state = np.clip(START + SPREAD * self.np_random.normal(size=6), LEAST, MOST)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        wanted = (float(np.asarray(action).reshape(-1)[0]) - LEVELS[0]) / (LEVELS[1] - LEVELS[0])
        if self.np_random.random() < SWITCH:
            self.regime = int(self.np_random.integers(len(REGIMES)))
        regime = list(REGIMES.values())[self.regime]
        strength, resistance, volume, support, lactate, damage = self.state
        support += 0.6 * (min(max(wanted, 0.0), 1.0) - support)
        signs = self._signs(strength, resistance, volume, support)
        suction = max(0.0, support - 1.4 * volume)
        strength += regime.contractility - 0.0008 * max(0.0, signs["filling"] - 18.0) + 0.002 * support
        resistance += regime.resistance + 0.05 * (0.75 - resistance)
        volume += 0.04 * (0.6 - volume) - 0.01 * support
        lactate += 0.25 * max(0.0, 4.2 - signs["flow"]) - 0.12 * (lactate - 1.0)
        damage += 9.0 * max(0.0, support - 0.6) + 25.0 * suction - 0.08 * (damage - 10.0)
        state = np.array([strength, resistance, volume, support, lactate, damage])
        self.state = np.clip(state + DRIFT * self.np_random.normal(size=6), LEAST, MOST)
        return self._seen(), self._reward(), False, False, {}

    def _signs(self, strength: float, resistance: float, volume: float, support: float) -> dict[str, float]:
        """Flow and pressures that follow from the state."""
        native = 8.0 * strength * min(1.0, volume / 0.6) * (1.0 - 0.35 * support)
        pump = 4.8 * support * min(1.0, volume / (0.4 + 0.3 * support))
        pressure = 12.0 + 16.5 * (native + pump) * resistance
        pulse = 9.0 * native * (1.0 - 0.5 * support) + 4.0
        filling = 4.0 + 34.0 * volume * (1.0 - strength) * (1.0 - 0.55 * support)
        return {"flow": native + pump, "pump": pump, "pressure": pressure, "pulse": pulse, "filling": filling}

    def _seen(self) -> NDArray[np.float32]:
        strength, resistance, volume, support, lactate, damage = self.state
        signs = self._signs(strength, resistance, volume, support)
        pressure, pulse = signs["pressure"], signs["pulse"]
        row = np.array(
            [
                pressure,
                pressure + 0.66 * pulse,
                pressure - 0.34 * pulse,
                80.0 + 0.7 * max(0.0, 75.0 - pressure) + 4.0 * (lactate - 1.0),
                signs["filling"],
                signs["flow"],
                pulse,
                20.0 + 26.0 * support,
                180.0 + 90.0 * signs["pump"] + 60.0 * max(0.0, support - 1.4 * volume),
                58.0 + 3.5 * signs["flow"] - 1.5 * (lactate - 1.0),
                lactate,
                damage,
            ]
        )
        return (row + SENSORS * self.np_random.normal(size=len(SIGNALS))).astype(np.float32)

    def _reward(self) -> float:
        strength, resistance, volume, support, lactate, damage = self.state
        signs = self._signs(strength, resistance, volume, support)
        pressure = np.exp(-(((signs["pressure"] - TARGET) / 15.0) ** 2))
        congestion = 0.04 * max(0.0, signs["filling"] - 15.0)
        starving, damaged = 0.15 * max(0.0, lactate - 2.0), 0.012 * max(0.0, damage - 30.0)
        return float(pressure - congestion - starving - damaged - 0.1 * support)
