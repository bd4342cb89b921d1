"""A run is the same to the last bit, stopped and resumed or not, repeated or not, watched or not."""

from pathlib import Path

from contracts.case import Case
from contracts.cases import each
from contracts.harness import Fitted, assert_same, differing, fit, state, weights


def part(case: Case, folder: Path, until: int | None = None, resume: bool = False) -> Fitted:
    """A run of the row's length, evaluated four times; stopped at `until`."""
    run = case.run(case.length, eval_every=case.length // 4, eval_episodes=2, save_minutes=None)
    return fit(case, run, 5, folder, log_every=case.length // 6, until=until, resume=resume)


@each()
def test_a_run_is_the_same_however_it_is_made(case: Case, tmp_path: Path) -> None:
    """One never stopped; another of the same seed, stopped twice; a third that nobody evaluates."""
    whole = part(case, tmp_path / "whole")
    third = case.length // 3
    for until in (third, 2 * third, None):
        part(case, tmp_path / "parts", until, resume=until != third)
    assert_same(state(tmp_path / "whole"), state(tmp_path / "parts"))

    blind = fit(
        case, case.run(case.length, save_minutes=None), 5, tmp_path / "blind", log_every=case.length // 6
    )
    looks = [len(made.evaluation.history) for made in (whole, blind)]
    assert looks[0] >= looks[1] + 3, "a model is looked at in the end, whoever asks"
    clocks = [(made.data.clock.env_step, made.data.clock.update) for made in (whole, blind)]
    assert clocks[0] == clocks[1]
    changed = differing(weights(whole.model), weights(blind.model))
    assert all(name.startswith(case.notes) for name in changed), "evaluating changed training"
