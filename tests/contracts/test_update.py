"""One update moves exactly the parameters it should, and each optimizer only its own."""

from contracts.case import Case
from contracts.cases import CASES, each
from contracts.harness import Bare, bare, differing, weights
from torch import nn


def under(model: nn.Module, prefixes: tuple[str, ...]) -> set[str]:
    return {name for name, _ in model.named_parameters() if name.startswith(prefixes)}


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


@each([case for case in CASES if case.updates])
def test_each_optimizer_moves_its_own_parameters_and_no_others(case: Case):
    run = bare(case)
    moved, before = watch(run), weights(run.model)
    for _ in range(case.blocks):
        run.learn(run.block())
    own = [under(run.model, prefixes) for prefixes in case.optimizers]
    targets, frozen = under(run.model, case.targets), under(run.model, case.frozen)
    assert set().union(*own, targets, frozen) == {name for name, _ in run.model.named_parameters()}
    still = {name for name in before if name.endswith(case.still)} if case.still else set()
    assert moved == [names - still for names in own]
    by_hand = differing(before, weights(run.model)) - set().union(*own)
    assert by_hand == targets - still | set(case.counters)


@each([case for case in CASES if case.targets or case.frozen])
def test_targets_are_in_no_optimizer_but_in_the_checkpoint(case: Case):
    run = bare(case)
    held = {id(p) for o in run.optimizers for group in o.param_groups for p in group["params"]}
    targets = under(run.model, case.targets + case.frozen)
    following = [value for name, value in run.model.named_parameters() if name in targets]
    assert following and not any(id(value) in held or value.requires_grad for value in following)
    assert targets <= run.model.state_dict().keys()
