"""One update moves exactly the parameters it should, and each optimizer only its own."""

import pytest
import torch
from contracts.cases import CASES, EXACT_RESUME, LEARNERS, Case
from contracts.harness import Bare, Taken, bare, differing, weights


def under(model: torch.nn.Module, prefixes: tuple[str, ...]) -> set[str]:
    return {name for name in dict(model.named_parameters()) if name.startswith(prefixes)}


def watch(run: Bare) -> list[set[str]]:
    """For every optimizer, the names that changed between the beginning and the end of its steps."""
    moved: list[set[str]] = [set() for _ in run.optimizers]

    def watched(i, inner):
        def step(*args, **kwargs):
            before = weights(run.model)
            inner(*args, **kwargs)
            moved[i].update(differing(before, weights(run.model)))

        return step

    for i, optimizer in enumerate(run.optimizers):
        optimizer.step = watched(i, optimizer.step)
    return moved


def one_round(case: Case) -> tuple[Bare, Taken]:
    """Enough updates that every part had its turn (an actor that waits, a target that is copied now and then)."""
    run = bare(case.but(model={"target_every": 3} if case.name.startswith("dqn") else {}))
    return run, run.block()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_optimizer_moves_its_own_parameters_and_no_others(case):
    run, block = one_round(case)
    moved, before = watch(run), weights(run.model)
    run.learn(block)
    expected = [under(run.model, prefixes) for prefixes in case.optimizers]
    assert moved == expected
    by_hand = differing(before, weights(run.model)) - set().union(*expected)
    assert by_hand == under(run.model, case.slow) | set(case.counters)
    everything = set().union(*expected) | under(run.model, case.slow)
    assert everything == set(dict(run.model.named_parameters())), "parameters that nobody moves"


@pytest.mark.parametrize("case", LEARNERS, ids=lambda case: case.name)
def test_slow_parameters_are_in_no_optimizer_but_in_the_checkpoint(case):
    run, _ = one_round(case)
    held = {id(p) for o in run.optimizers for group in o.param_groups for p in group["params"]}
    slow = under(run.model, case.slow)
    assert not any(id(p) in held for name, p in run.model.named_parameters() if name in slow)
    assert not any(p.requires_grad for name, p in run.model.named_parameters() if name in slow)
    assert slow <= run.model.state_dict().keys()


def test_resume_rows_exist():
    assert set(EXACT_RESUME) <= {case.name for case in CASES}
