"""Phases as a state machine: which hook comes when, what ends a phase, and that stopping anywhere changes nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_lightning.clock.phases import PhaseCursor, parse_phases
from rl_lightning.errors import ConfigError

UPDATES = ["update_actor", "update_critic"]
COLLECT_STEPS = 4


def cursor(*entries: dict[str, Any], updates: list[str] | None = None) -> PhaseCursor:
    return PhaseCursor(parse_phases(list(entries), updates or ["update"]))


def one(place: PhaseCursor, starved: bool = False) -> str:
    """Does what a DataModule does with one hook; returns what was done."""
    hook = place.next_hook()
    if hook.name == "collect":
        place.advance(env_steps=COLLECT_STEPS)
        return "C"
    if hook.name == "evaluate":
        place.advance()
        return "E"
    updates = place.room_for_updates(hook.count)
    if starved:
        place.advance(skipped=True)
        return "-"
    place.advance(updates=updates)
    return {"update": "U", "update_actor": "A", "update_critic": "Q"}[hook.name] + str(updates)


def walk(place: PhaseCursor, most: int = 20, starved: bool = False) -> str:
    done = []
    while not place.finished and len(done) < most:
        done.append(one(place, starved))
    return " ".join(done)


ORDERS = [
    # hooks in order, one cycle after the other
    ([{"cycles": 2, "hooks": ["collect", "update", "evaluate"]}], "C U1 E C U1 E"),
    # the defaults of each type
    ([{"cycles": 1}], "C U1"),
    ([{"type": "offline", "cycles": 2}], "U1 U1"),
    ([{"type": "eval_only"}], "E"),
    ([{"type": "eval_only", "cycles": 3}], "E E E"),
    # a hook may stand there twice
    ([{"cycles": 1, "hooks": ["update", "collect", "update"]}], "U1 C U1"),
    # count: updates as one block, others one by one
    ([{"cycles": 1, "hooks": [{"name": "collect", "count": 3}, {"name": "update", "count": 5}]}], "C C C U5"),
    # every: in the cycles 0, n, 2n, ...
    ([{"cycles": 5, "hooks": ["collect", {"name": "evaluate", "every": 2}]}], "C E C C E C C E"),
    ([{"cycles": 3, "hooks": [{"name": "evaluate", "every": 3}, {"name": "update", "every": 2}]}], "E U1 U1"),
    ([{"cycles": 4, "hooks": ["collect", {"name": "evaluate", "every": 2}]}], "C E C C E C"),
    # after: once the phase has made so many updates
    ([{"cycles": 4, "hooks": ["update", {"name": "evaluate", "after_updates": 3}]}], "U1 U1 U1 E U1 E"),
    (
        [{"cycles": 3, "hooks": [{"name": "collect", "every": 2}, {"name": "evaluate", "after_updates": 9}]}],
        "C C",
    ),
    # the first duration that is reached ends the phase, in the middle of a cycle too
    ([{"env_steps": 8, "updates": 9, "cycles": 9, "hooks": ["collect", "update"]}], "C U1 C"),
    ([{"env_steps": 99, "updates": 2, "cycles": 9, "hooks": ["update", "collect"]}], "U1 C U1"),
    ([{"env_steps": 99, "updates": 9, "cycles": 1, "hooks": ["update", "collect"]}], "U1 C"),
    # updates never pass the phase's end
    ([{"updates": 7, "hooks": [{"name": "update", "count": 5}]}], "U5 U2"),
    # env steps may, since a phase does not cut a collect
    ([{"env_steps": 5, "hooks": ["collect"]}], "C C"),
    # counters begin anew in each phase
    (
        [{"cycles": 1, "hooks": ["collect"]}, {"updates": 2, "type": "offline"}, {"type": "eval_only"}],
        "C U1 U1 E",
    ),
]


@pytest.mark.parametrize(("entries", "expected"), ORDERS, ids=[expected for _, expected in ORDERS])
def test_order(entries: list[dict[str, Any]], expected: str) -> None:
    place = cursor(*entries)
    assert walk(place) == expected
    assert place.finished


def test_every_update_method_is_a_default_hook() -> None:
    assert walk(cursor({"cycles": 1}, updates=UPDATES)) == "C A1 Q1"
    assert walk(cursor({"cycles": 1, "type": "offline"}, updates=UPDATES)) == "A1 Q1"


def test_a_phase_without_a_duration_lasts() -> None:
    place = cursor({"hooks": ["collect"]})
    walk(place, most=1000)
    assert not place.finished and place.env_steps == 1000 * COLLECT_STEPS and place.progress == 0.0


def test_progress_is_the_share_of_the_nearest_end() -> None:
    place = cursor({"env_steps": 40, "cycles": 5, "hooks": ["collect"]})
    seen = []
    while not place.finished:
        seen.append(place.progress)
        one(place)
    assert seen == [0.0, 0.2, 0.4, 0.6, 0.8]


def test_skipped_updates_count_nothing() -> None:
    place = cursor({"updates": 2, "hooks": ["collect", "update"]})
    assert walk(place, most=6, starved=True) == "C - C - C -"
    assert (place.updates, place.cycles, place.env_steps) == (0, 3, 3 * COLLECT_STEPS)
    assert walk(place) == "C U1 C U1"


def test_a_cycle_in_which_all_was_skipped_is_none() -> None:
    place = cursor({"cycles": 2, "type": "offline"}, updates=UPDATES)
    walk(place, most=10, starved=True)
    assert place.cycles == 0 and not place.finished and place.starved == 10


def test_evaluations_do_not_hide_that_there_is_no_data() -> None:
    place = cursor({"updates": 2, "type": "offline", "hooks": ["update", "evaluate"]})
    assert walk(place, most=8, starved=True) == "- E - E - E - E"
    assert place.starved == 4


NAMES = [
    ("duration_steps", "env_steps", 8),
    ("steps", "env_steps", 8),
    ("duration_updates", "updates", 3),
    ("duration_cycles", "cycles", 2),
    ("workflow_hooks", "hooks", ["collect"]),
    ("imagination_horizon", "horizon", 5),
]


@pytest.mark.parametrize(("alias", "name", "value"), NAMES, ids=[alias for alias, _, _ in NAMES])
def test_aliases(alias: str, name: str, value: Any) -> None:
    assert parse_phases([{alias: value}], ["update"]) == parse_phases([{name: value}], ["update"])
    with pytest.raises(ConfigError, match="they mean the same"):
        parse_phases([{alias: value, name: value}], ["update"])


REFUSED = [
    ({"env_step": 5}, r"phases\[0\] has no key 'env_step'; did you mean 'env_steps'\?"),
    ({"foo": 5}, r"no key 'foo'; free keys go below extra"),
    ({"type": "ofline"}, r"'ofline'; choose online, offline, eval_only; did you mean 'offline'\?"),
    ({"hooks": ["updat"]}, r"no hook 'updat'; did you mean 'update'\?; there are update, collect, evaluate"),
    ({"hooks": [{"name": "update", "evry": 2}]}, r"a hook has no key 'evry'; did you mean 'every'\?"),
    ({"hooks": [{"every": 2}]}, "no hook 'None'"),
    ({"hooks": []}, "hooks is empty"),
    ({"hooks": [{"name": "update", "count": 0}]}, "count is 0; it must be at least 1"),
    ({"hooks": [{"name": "update", "count": "3"}]}, "count is '3'"),
    ({"hooks": [{"name": "update", "every": 1.5}]}, r"every is 1.5"),
    ({"hooks": [{"name": "update", "after_updates": -1}]}, "after_updates is -1"),
    ({"hooks": ["collect", {"name": "update", "after_updates": 3}]}, "every update waits for 3 others"),
    ({"type": "offline", "hooks": ["collect"]}, "is offline but collects"),
    ({"updates": 0}, "updates is 0; it must be a positive number"),
    ({"cycles": True}, "cycles is True"),
    ({"env_steps": "many"}, "env_steps is 'many'"),
    ({"horizon": -1}, "horizon is -1"),
]


@pytest.mark.parametrize(("entry", "message"), REFUSED, ids=[str(entry) for entry, _ in REFUSED])
def test_refused(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_phases([entry], ["update"])


def test_no_phases_are_refused() -> None:
    with pytest.raises(ConfigError, match="the list is empty"):
        parse_phases([], ["update"])


def test_hooks_that_can_never_run_are_told_of() -> None:
    place = cursor({"cycles": 3, "hooks": [{"name": "evaluate", "after_updates": 2}]})
    with pytest.raises(ConfigError, match="no hook can ever run"):
        place.next_hook()


HOOKS = st.builds(
    lambda name, every, count, after: {"name": name, "every": every, "count": count, "after_updates": after},
    st.sampled_from(["collect", "evaluate", "update"]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
)
PHASE = st.builds(
    lambda hooks, durations: {"hooks": ["update", *hooks], **durations},
    st.lists(HOOKS, max_size=3),
    st.fixed_dictionaries(
        {"updates": st.integers(1, 9)},
        optional={"env_steps": st.integers(1, 20), "cycles": st.integers(1, 4)},
    ),
)


@given(st.lists(PHASE, min_size=1, max_size=3), st.lists(st.booleans(), max_size=12))
def test_saved_and_restored_at_every_step_is_never_stopped(entries: list[Any], starving: list[bool]) -> None:
    straight, stopped = cursor(*entries), cursor(*entries)
    for step in range(60):
        if straight.finished:
            break
        starved = step < len(starving) and starving[step]
        done = one(straight, starved)
        state = stopped.state_dict()
        stopped = cursor(*entries)
        stopped.load_state_dict(state)
        assert one(stopped, starved) == done
        assert vars(stopped) == vars(straight)
    assert stopped.finished == straight.finished


@given(st.lists(PHASE, min_size=1, max_size=3), st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_hooks_cut_short_anywhere_are_hooks_made_whole(entries: list[Any], cuts: list[int]) -> None:
    """Parts of a hook are saved and restored too, and count nothing before the last of them."""
    straight, cut = cursor(*entries), cursor(*entries)
    for step in range(60):
        if straight.finished:
            break
        before, hook = vars(cut) | {"phases": None}, straight.next_hook()
        one(straight)
        made = {"collect": COLLECT_STEPS, "evaluate": 0}.get(hook.name, cut.room_for_updates(hook.count))
        key, first = (
            "updates" if hook.is_update else "env_steps",
            max(0, min(cuts[step % len(cuts)], made - 1)),
        )
        if first:
            cut.next_hook()
            assert not cut.advance(**{key: first}, whole=False)
            state, cut = cut.state_dict(), cursor(*entries)
            cut.load_state_dict(state)
            assert vars(cut) | {"phases": None} == before | {"part": first}
        assert cut.next_hook() == hook
        cut.advance(**{key: made - first})
        assert vars(cut) == vars(straight)
