"""`rl fit` on both stages of Diffusion-DICE, and `rl test` with another guidance, filter and sampler than trained."""

import csv
import json

import pytest
from generated_data import write_rows

from rl_lightning.cli import main

TINY = ["--updates", "4", "--eval_every", "4", "--eval_episodes", "2", "--log.tensorboard", "false"]
TINY += ["--stages.behavior.data.batch_size", "16", "--stages.dice.data.batch_size", "16"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("dice")
    patch.chdir(folder)
    patch.setenv("RL_DATA_DIR", str(folder / "data"))
    for name in ("RL_LOGS", "RL_RUN_DIR", "LOCAL_RANK"):
        patch.delenv(name, raising=False)
    write_rows("local/modes-scripted")
    assert main(["fit", "--config", "dice/demo", "--name", "demo", *TINY]) == 0
    yield folder
    patch.undo()


def outcome(folder, *flags):
    out = folder / "test.json"
    code = main(
        ["test", "demo/dice", "--checkpoint", "last", "--episodes", "5", "--output", str(out), *flags]
    )
    return code, json.loads(out.read_text()) if code == 0 else {}


@pytest.mark.parametrize(
    "flags",
    [
        ["--model.guidance_scale", "0"],
        ["--model.guidance_scale", "4", "--model.num_samples", "7"],
        [
            "--model.num_samples",
            "3",
            "--model.candidate_filter",
            "SoftmaxFilter",
            "--model.candidate_filter.temperature",
            "0.2",
        ],
        [
            "--model.sampler",
            "DPMSolver",
            "--model.sampler.num_inference_steps",
            "3",
            "--model.sampler.skip_type",
            "logSNR",
        ],
        ["--model.sampler", "DDIM", "--model.sampler.num_inference_steps", "2"],
        ["--model.sampling_dtype", "bfloat16"],
    ],
    ids=lambda flags: " ".join(flags),
)
def test_a_trained_run_is_tested_with_other_settings(trained, flags, capsys):
    code, found = outcome(trained, *flags)
    assert code == 0, capsys.readouterr().err
    assert len(found["episodes"]) == 5 and outcome(trained, *flags)[1]["episodes"] == found["episodes"]


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--model.num_samples", "0"], "num_samples"),
        (["--model.sampler.skip_type", "cubic"], "skip_type"),
        (["--model.candidate_filter", "WorstFilter"], "WorstFilter"),
        (["--model.guidance_scale", "-2"], "guidance_scale"),
        (["--model.sampler", "DDPM"], "DDPM"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(trained, flags, word, capsys):
    assert outcome(trained, *flags)[0] == 2
    told = capsys.readouterr().err
    assert word in told and "Traceback" not in told and len(told.strip().splitlines()) <= 3


def test_a_missing_behaviour_is_told(trained, capsys):
    flags = [
        "--config",
        "dice/stages/guidance",
        "--name",
        "alone",
        "--data.dataset",
        "local/modes-scripted",
        "--updates",
        "2",
    ]
    assert main(["fit", *flags, "--model.behavior", "nowhere"]) in (2, 4)
    assert "nowhere" in capsys.readouterr().err


def test_what_was_changed_is_told_and_counts_as_other_settings(trained):
    logs = trained / "lightning_logs"
    known = json.loads((logs / "demo" / "dice" / "run.json").read_text())["config_hash"]

    def tested(*flags):
        found = outcome(trained, *flags)[1]
        *_, row = csv.DictReader((logs / "results.csv").read_text().splitlines())
        assert row["changed"] == "; ".join(found["changed"])
        return found["changed"], row["config_hash"]

    assert tested() == ([], known)
    assert tested("--updates", "9", "--eval_episodes", "3") == ([], known), "an evaluation has no budget"
    assert tested("--seed", "5") == (["seed_everything: 0 -> 5"], known)
    changed, other = tested("--model.guidance_scale", "4")
    assert [line.split(":")[0] for line in changed] == ["model.guidance_scale"] and changed[0].endswith(
        "-> 4.0"
    )
    assert other not in (known, "") and tested("--model.guidance_scale", "4")[1] == other
