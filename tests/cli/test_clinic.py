"""Recorded data without an env, from the check to the policy that is asked for actions."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rl_lightning.cli import main

ROWS, LENGTH = 200, 10


def recorded(rows: int = ROWS) -> dict[str, Any]:
    """Three signals and an action in [2, 9], told in [-1, 1] with its bounds beside it."""
    draw = np.random.default_rng(0)
    obs = draw.normal(size=(rows, 3)).astype(np.float32)
    action = draw.uniform(-1, 1, (rows, 1)).astype(np.float32)
    following = (0.9 * obs + 0.3 * action).astype(np.float32)
    timeouts = np.arange(1, rows + 1) % LENGTH == 0
    return {
        "observations": obs, "actions": action, "rewards": -np.abs(following).sum(1), "timeouts": timeouts,
        "next_observations": following, "terminals": np.zeros(rows, bool),
    }  # fmt: skip


def table(path: Path | str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


PIPELINE = {
    "threads": 1,
    "shared": {"data.dataset": "rows.hdf5"},
    "stages": [
        {
            "name": "dynamics",
            "config": "gormpo/stages/dynamics",
            "overrides": {"model.hidden_dims": [8], "run.updates": 20, "run.eval_every": 10},
        },
        {
            "name": "density",
            "config": "gormpo/stages/density",
            "overrides": {"model.density_model": {"class_path": "KDE"}, "run.updates": 2, "run.eval_every": 1},
        },
        {
            "name": "policy",
            "config": ["gormpo/stages/gormpo", "gormpo/stages/small"],
            "inputs": {"data.dynamics": "dynamics", "data.penalty.density": "density"},
            "overrides": {
                "run.updates": 10, "run.eval_every": 5, "run.eval_episodes": 2, "run.final_episodes": 2,
                "data.rollout_batch_size": 10, "data.eval_env": "model",
            },
        },
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the data, and the pipeline `ward` trained on it."""
    folder = tmp_path_factory.mktemp("clinic")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("RL_LOGS", str(folder / "logs"))
        np.savez("rows.npz", **recorded())
        assert main(["data", "convert", "rows.npz", "rows.hdf5"]) == 0
        import h5py

        with h5py.File("rows.hdf5", "a") as file:
            file["metadata/action_low"], file["metadata/action_high"] = [2.0], [9.0]
        Path("ward.yaml").write_text(yaml.safe_dump(PIPELINE))
        assert main(["fit", "--config", "./ward.yaml", "--name", "ward"]) == 0
    yield folder


@pytest.fixture
def ward(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(home)
    monkeypatch.setenv("RL_LOGS", str(home / "logs"))

    def rl(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(list(words))
        said = capsys.readouterr()
        return code, said.out + said.err

    return rl


def test_training_is_evaluated_in_the_model(home: Path) -> None:
    rows = table(home / "logs/ward/policy/metrics.csv")
    evaluated = [row for row in rows if row["eval/return"]]
    assert len(evaluated) >= 2 and all(float(row["eval/disagreement"]) > 0 for row in evaluated)
    assert all(0.0 <= float(row["eval/ood_fraction"]) <= 1.0 for row in evaluated)
    record = json.loads((home / "logs/ward/policy/run.json").read_text())
    assert record["evaluated_in"] == record["final"]["evaluated_in"] == "ward/dynamics"


def test_a_run_is_tested_in_a_model(home: Path, ward: Any) -> None:
    code, said = ward("test", "ward", "--in", "ward", "--episodes", "3")
    assert code == 0 and "below threshold" in said and "disagreement" in said, said
    values = json.loads((home / "logs/ward/policy/test-in-model.json").read_text())
    assert values["evaluated_in"] == "ward" and values["density"] and values["horizon"] == LENGTH
    assert len(values["episodes"]) == 3
    assert all({"return", "ood_fraction", "disagreement"} <= set(row) for row in values["episodes"])
    assert not (home / "logs/ward/policy/test.json").exists() or "evaluated_in" in json.loads(
        (home / "logs/ward/policy/test.json").read_text()
    )
    row = table(home / "logs/results.csv")[-1]
    assert "in the model ward" in row["changed"]


def test_its_horizon_is_eval_max_steps(ward: Any) -> None:
    code, said = ward("test", "ward", "--in", "ward", "--episodes", "2", "--eval_max_steps", "4")
    assert code == 0 and "4 steps at most" in said and "mean 4.0" in said, said


def test_any_algorithm_learns_in_the_model_and_is_played_there(ward: Any) -> None:
    words = [
        "--config",
        "ppo/cartpole",
        "--data.env.id",
        "rl/Model-v0",
        "--env_steps",
        "64",
        "--eval_episodes",
        "2",
    ]
    size = ["--data.num_envs", "2", "--data.rollout_steps", "16", "--eval_every", "32", "--name", "inside"]
    code, said = ward("fit", *words, "--data.env.kwargs", "{dynamics: ward, density: ward}", *size)
    assert code == 0, said
    code, said = ward("play", "inside", "--episodes", "2", "--no_video")
    assert code == 0 and "disagreement" in said and "ood_fraction" in said, said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("test", "ward", "--in", "ward", "--termination", "Foo"), "termination 'Foo' is unknown"),
        (("test", "ward", "--density", "ward"), "belongs to --in"),
        (("test", "ward", "--in", "ward", "--noise"), "does not go with --in"),
        (("test", "ward/dynamics", "--in", "ward"), "does not act"),
        (("test", "ward", "--in", "nothing"), "neither a path nor a run"),
        (("fit", "--config", "bc/hopper-medium", "--data.dataset", "rows.hdf5", "--data.eval_env", "model"),
         "--data.eval_dynamics"),
    ],
)  # fmt: skip
def test_a_model_that_is_none_is_refused(ward: Any, words, said) -> None:
    code, text = ward(*words)
    assert code in (2, 4) and said in text, text


def test_a_policy_that_was_cloned_is_evaluated_in_the_model_too(ward: Any) -> None:
    words = [
        "--config",
        "bc/hopper-medium",
        "--data.dataset",
        "rows.hdf5",
        "--updates",
        "4",
        "--eval_every",
        "2",
    ]
    model = ["--data.eval_env", "model", "--data.eval_dynamics", "ward", "--data.eval_density", "ward"]
    code, said = ward("fit", *words, *model, "--eval_episodes", "2", "--name", "clone")
    assert code == 0 and "in the model ward" in said, said


def test_every_row_gets_an_action_in_clinical_units(home: Path, ward: Any) -> None:
    code, said = ward("predict", "ward", "--data", "rows.hdf5", "--output", "advice.npz")
    assert code == 0 and "below the density's threshold" in said, said
    advice = np.load("advice.npz")
    assert len(advice["action"]) == ROWS
    assert (advice["action"] >= 2.0).all() and (advice["action"] <= 9.0).all()
    recorded_units = 5.5 + 3.5 * recorded()["actions"]
    assert np.allclose(advice["recorded_action"], recorded_units, atol=1e-4)
    assert (advice["action_std"] > 0.0).all() and (advice["action_std"] < 3.5).all()
    assert np.isfinite(advice["score"]).all() and advice["below_threshold"].dtype == bool


def test_a_table_of_new_patients_gets_actions_too(home: Path, ward: Any) -> None:
    """Nobody has acted yet: observations are all there is."""
    obs = recorded(rows=7)["observations"]
    lines = ["obs_0,obs_1,obs_2", *(",".join(f"{value:.6f}" for value in row) for row in obs)]
    Path("new.csv").write_text("\n".join(lines) + "\n")
    code, said = ward("predict", "ward", "--data", "new.csv", "--output", "new-advice.csv")
    assert code == 0, said
    rows = table("new-advice.csv")
    assert len(rows) == 7 and {"row", "action_0", "action_std_0", "score", "below_threshold"} <= set(rows[0])
    assert "recorded_action_0" not in rows[0]
    Path("named.csv").write_text("\n".join(["a,b,c", *lines[1:]]) + "\n")
    assert ward("predict", "ward", "--data", "named.csv")[0] == 3
    words = ["--columns", "observations=a,b,c", "--output", "named-advice.csv"]
    assert ward("predict", "ward", "--data", "named.csv", *words)[0] == 0
    assert table("named-advice.csv") == rows
    assert ward("predict", "ward", "--data", "rows.hdf5", "--columns", "observations=a")[0] == 2
    lines = ["obs_0,obs_1,obs_2,action,episode", *(f"{line},4.5,{i % 2}" for i, line in enumerate(lines[1:]))]
    Path("acted.csv").write_text("\n".join(lines) + "\n")
    assert ward("predict", "ward", "--data", "acted.csv", "--output", "acted-advice.csv")[0] == 0
    acted = table("acted-advice.csv")
    assert [row["action_0"] for row in acted] == [row["action_0"] for row in rows], "lines keep their places"
    assert all(float(row["recorded_action_0"]) == pytest.approx(4.5) for row in acted)
    np.savez("new.npz", obs=obs)
    assert ward("predict", "ward", "--data", "new.npz", "--output", "again.npz")[0] == 0
    again = np.load("again.npz")["action"][:, 0]
    assert np.allclose(again, [float(row["action_0"]) for row in rows], atol=1e-4)


def test_rows_that_lead_nowhere_get_an_action_as_well(home: Path, ward: Any) -> None:
    """Training leaves them out: no next observation is known of them."""
    rows = recorded()
    del rows["next_observations"]
    np.savez("linked.npz", **rows)
    assert ward("data", "convert", "linked.npz", "linked.hdf5")[0] == 0
    code, said = ward("predict", "ward", "--data", "linked.hdf5", "--output", "linked-out.npz")
    assert code == 0 and len(np.load("linked-out.npz")["action"]) == ROWS, said


def test_far_from_the_data_is_said(home: Path, ward: Any) -> None:
    np.savez("far.npz", obs=np.full((5, 3), 30.0, np.float32))
    assert ward("predict", "ward", "--data", "far.npz", "--output", "far-out.npz")[0] == 0
    assert np.load("far-out.npz")["below_threshold"].all()


def test_draws_may_be_left_out_and_a_density_asks_for_its_model(home: Path, ward: Any) -> None:
    words = ["predict", "clone", "--data", "rows.hdf5", "--output", "clone.npz"]
    fit = ["--config", "bc/hopper-medium", "--data.dataset", "rows.hdf5", "--updates", "4", "--name", "clone"]
    assert (home / "logs/clone").is_dir() or ward("fit", *fit)[0] == 0
    assert ward(*words, "--draws", "0")[0] == 0
    assert "action_std" not in np.load("clone.npz")
    plain = [
        "--config",
        "bc/hopper-medium",
        "--data.dataset",
        "rows.hdf5",
        "--updates",
        "4",
        "--name",
        "plain",
    ]
    assert ward("fit", *plain)[0] == 0
    code, said = ward("predict", "plain", "--data", "rows.hdf5", "--density", "ward")
    assert code == 2 and "--dynamics" in said, said
    code, said = ward("predict", "plain", "--data", "rows.hdf5", "--density", "ward", "--dynamics", "ward")
    assert code == 0 and "below" in said, said


def test_runs_without_returns_are_drawn_and_named(home: Path, ward: Any) -> None:
    code, said = ward("plot", "ward/density")
    assert code == 0 and "eval/score" in said and (home / "logs/ward/density/eval-score.png").is_file()
    fit = [
        "--config",
        "iql/hopper-medium",
        "--data.dataset",
        "rows.hdf5",
        "--updates",
        "4",
        "--name",
        "blind",
    ]
    code, said = ward("fit", *fit, "--model.hidden_dims", "[8]")
    assert code == 0 and "--data.eval_env model" in said, said
    code, said = ward("plot", "blind")
    assert code == 0 and said.lstrip().startswith("loss"), said
    assert ward("watch", "blind")[0] == 0 and ward("show", "blind")[0] == 0 and ward("list")[0] == 0
    code, said = ward("test", "ward/density")
    assert code == 0 and "Density on rows.hdf5" in said, said


def test_recommended_actions_are_drawn_against_recorded_ones(home: Path, ward: Any) -> None:
    code, said = ward("plot", "ward", "--actions", "--output", "actions.png")
    assert code == 0 and "correlation" in said and "of recorded actions below" in said, said
    assert Path("actions.png").stat().st_size > 10_000
    assert ward("plot", "ward/dynamics", "--actions")[0] == 2
    assert ward("plot", "ward", "--density", "ward")[0] == 2


def test_checkpoints_are_ranked_by_each_estimator(home: Path, ward: Any) -> None:
    fit = [
        "--config",
        "bc/hopper-medium",
        "--data.dataset",
        "rows.hdf5",
        "--updates",
        "4",
        "--name",
        "behavior",
    ]
    assert ward("fit", *fit, "--model.loss", "NegativeLogLikelihood")[0] == 0
    words = ["rank", "ward", "behavior", "--data", "rows.hdf5", "--in", "ward", "--checkpoints", "last"]
    size = ["--updates", "5", "--episodes", "2", "--hidden_dims", "8", "--output", "ranking.json"]
    code, said = ward(*words, *size, "--behavior", "behavior")
    assert code == 0, said
    assert all(
        word in said for word in ("model", "fqe", "wis", "dr", "(1)", "(2)", "policy last", "behavior last")
    )
    result = json.loads(Path("ranking.json").read_text())
    own = next(row for row in result["rows"] if row["checkpoint"] == "behavior last")
    rewards = recorded()["rewards"].reshape(-1, LENGTH)
    mean_return = (rewards * 0.99 ** np.arange(LENGTH)).sum(1).mean()
    assert own["wis"] == pytest.approx(mean_return, rel=1e-4), "who acted himself: all weights are alike"
    assert own["effective_episodes"] == pytest.approx(ROWS / LENGTH)
    assert result["spearman"] == {}


def test_what_cannot_be_ranked_is_said(home: Path, ward: Any) -> None:
    code, said = ward("rank", "ward", "--data", "rows.hdf5", "--checkpoints", "last")
    assert code == 2 and "--milestone_every" in said
    assert ward("rank", "ward")[0] == 2
    fit = [
        "--config",
        "td3_bc/hopper-medium",
        "--data.dataset",
        "rows.hdf5",
        "--updates",
        "4",
        "--name",
        "sure",
    ]
    assert ward("fit", *fit)[0] == 0
    words = ["rank", "ward", "sure", "--data", "rows.hdf5", "--checkpoints", "last", "--updates", "2"]
    code, said = ward(*words, "--hidden_dims", "8", "--behavior", "sure")
    assert code == 2 and "says of no action how likely it is" in said, said
