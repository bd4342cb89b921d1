"""A config may name what is allowed and nothing else; refusing comes before importing."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Rl

DATA = "data: {class_path: OnPolicyData, init_args: {env: {id: CartPole-v1}}}\nrun: {env_steps: 1}\n"

GROUP = "rl_lightning.runs.engine.group"


def attack(workdir: Path) -> dict[str, str]:
    marker = workdir / "marker"
    touch = f"touch {marker}"
    ppo = "model: {class_path: PPO, init_args: {%s}}\n" + DATA
    return {
        "python tag": f"model: !!python/object/apply:os.system ['{touch}']\n",
        "os.system": f"model: {{class_path: os.system, init_args: {{command: '{touch}'}}}}\n{DATA}",
        "Popen": ppo % f"network: {{class_path: subprocess.Popen, init_args: {{args: [touch, '{marker}']}}}}",
        "Popen by a module of ours": ppo
        % f"network: {{class_path: {GROUP}.subprocess.Popen, init_args: {{args: [touch, '{marker}']}}}}",
        "eval": ppo % "network: {class_path: builtins.eval, init_args: {source: '1'}}",
        "hub": ppo % f"optimizer: {{class_path: torch.hub.load, init_args: {{repo_or_dir: '{workdir}'}}}}",
        "module with side effects": f"model: {{class_path: sidefx.Thing}}\n{DATA}",
        "callback with side effects": ppo % "" + "trainer: {callbacks: [{class_path: sidefx.Thing}]}\n",
        "env id with a module": DATA.replace("CartPole-v1", "sidefx:Foo-v0") + "model: {class_path: PPO}\n",
        "class in env kwargs": DATA.replace(
            "id: CartPole-v1", "id: CartPole-v1, kwargs: {x: {class_path: sidefx.Thing}}"
        )
        + "model: {class_path: PPO}\n",
        "jsonargparse": ppo % "network: {class_path: jsonargparse.set_parsing_settings}",
        "import in a config": f"import: [sidefx]\nmodel: {{class_path: sidefx.Thing}}\n{DATA}",
    }


NAMES = list(attack(Path("x")))


@pytest.mark.parametrize("case", NAMES)
def test_attacks_are_refused(rl: Rl, workdir: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.syspath_prepend(str(workdir))
    marker = workdir / "marker"
    Path("sidefx.py").write_text(f"open({str(marker)!r}, 'w')\nclass Thing:\n    pass\n")
    Path("evil.yaml").write_text(attack(workdir)[case])
    result = rl("fit", "--config", "evil.yaml")
    assert result.code == 2, result
    assert not marker.exists() and "Traceback" not in result.err
    assert not list(workdir.glob("lightning_logs/*"))


@pytest.mark.parametrize(
    "flag", ["--model", "--model.class_path", "--model.network", "--model.optimizer", "--trainer.callbacks"]
)
def test_flags_are_held_to_the_same(rl: Rl, workdir: Path, flag: str) -> None:
    result = rl("fit", "--config", "cartpole.yaml", flag, "subprocess.Popen")
    assert result.code == 2 and "subprocess.Popen" in result.err


@pytest.mark.parametrize("package", ["os", "subprocess", "builtins", "jsonargparse", "pickle"])
def test_import_is_for_packages_of_ones_own(rl: Rl, package: str) -> None:
    assert rl("fit", "--config", "cartpole.yaml", "--import", package).code == 2


def test_import_allows_what_the_user_named(rl: Rl, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("my_own_nets.py").write_text(
        "from rl_lightning.nn import MLP\n\n\nclass Wide(MLP):\n"
        "    def __init__(self, obs_shape, /, width: int = 8) -> None:\n"
        "        super().__init__(obs_shape, hidden_dims=[width])\n"
    )
    monkeypatch.syspath_prepend(str(workdir))
    words = [
        "--config",
        "cartpole.yaml",
        "--model.network",
        "Wide",
        "--model.network.width",
        "5",
        "--print-config",
    ]
    refused = rl("fit", *words)
    assert refused.code == 2 and "--import" in refused.err
    allowed = rl("fit", *words, "--import", "my_own_nets")
    assert allowed.code == 0 and "class_path: my_own_nets.Wide" in allowed.out and "width: 5" in allowed.out


def test_a_run_folder_imports_nothing(rl: Rl, workdir: Path) -> None:
    from rl_lightning.runs.store.run_folder import claim

    run = claim("mine", "x")
    run.update(imports=["sidefx"], status="finished")
    run.config_file.write_text(DATA)
    result = rl("play", "mine")
    assert result.code == 2 and "--import sidefx" in result.err


def test_hostile_and_damaged_checkpoints(rl: Rl, workdir: Path) -> None:
    import pickle

    import torch

    from rl_lightning.runs.store.run_folder import claim

    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return open, (str(workdir / "marker"), "w")

    run = claim("mine", "x")
    run.update(status="finished")
    run.config_file.write_text(Path("cartpole.yaml").read_text())
    folder = run.folder / "checkpoints"
    folder.mkdir()
    (folder / "raw.ckpt").write_bytes(pickle.dumps(Evil()))
    torch.save({"state_dict": Evil()}, folder / "zip.ckpt")
    (folder / "none.ckpt").write_bytes(b"")
    (folder / "html.ckpt").write_text("<html>")
    torch.save({"state_dict": {"x": torch.zeros(1)}}, folder / "other.ckpt")
    torch.save([1, 2], folder / "list.ckpt")
    for name in ("raw", "zip", "none", "html", "other", "list"):
        result = rl("play", "mine", "--checkpoint", f"{name}.ckpt", "--no-video")
        assert result.code == 4 and f"{name}.ckpt" in result.err and "Traceback" not in result.err, result
    assert not (workdir / "marker").exists()


def test_secrets_stay_out_of_what_is_printed(rl: Rl) -> None:
    result = rl("fit", "--config", "cartpole.yaml", "--data.env.kwargs.api_key", "hunter2", "--print_config")
    assert result.code == 0 and "hunter2" not in result.out and "<redacted>" in result.out


LOGGER = "{class_path: lightning.pytorch.loggers.CSVLogger, init_args: {save_dir: %s}}"
PROFILER = "{class_path: lightning.pytorch.profilers.SimpleProfiler, init_args: {filename: %s}}"
SAVER = "{class_path: lightning.pytorch.callbacks.OnExceptionCheckpoint, init_args: {dirpath: %s}}"


@pytest.mark.parametrize(
    "trainer",
    [
        f"logger: {LOGGER}",
        f"logger: [{LOGGER}]",
        f"profiler: {PROFILER}",
        f"callbacks: [{SAVER}]",
        "default_root_dir: %s",
    ],
)
@pytest.mark.parametrize("place", ["OUTSIDE", "../OUTSIDE", "~/OUTSIDE", "file:OUTSIDE"])
def test_a_config_writes_into_the_runs_folder_alone(rl: Rl, workdir: Path, trainer: str, place: str) -> None:
    place = str(workdir / place) if place == "OUTSIDE" else place
    text = (workdir / "cartpole.yaml").read_text() + f"trainer: {{{trainer % place}}}\n"
    (workdir / "evil.yaml").write_text(text)
    refused = rl("fit", "--config", "evil.yaml")
    assert refused.code == 2 and "the run's folder alone" in refused.err and place in refused.err
    assert not list(workdir.glob("lightning_logs/*")) and not list(workdir.parent.rglob("OUTSIDE"))


def test_its_loggers_write_there_and_a_flag_of_the_users_elsewhere(rl: Rl, workdir: Path) -> None:
    trainer = f"trainer: {{logger: {LOGGER % 'mine'}, profiler: {PROFILER % 'pace'}}}\n"
    (workdir / "own.yaml").write_text((workdir / "cartpole.yaml").read_text() + trainer)
    assert rl("fit", "--config", "own.yaml", "--name", "a").code == 0
    run = workdir / "lightning_logs/a"
    assert (
        list(run.glob("mine/**/metrics.csv")) and list(run.glob("*pace*")) and not (workdir / "mine").exists()
    )
    flag = ["--trainer.logger.save_dir", str(workdir / "there")]
    assert rl("fit", "--config", "own.yaml", "--name", "b", *flag).code == 0
    assert (
        list(workdir.glob("there/**/metrics.csv")) and rl("test", "b", "--run.eval_episodes", "1").code == 0
    )
    assert rl("resume", "b", "--env_steps", "96").code == 2
    assert rl("resume", "b", "--env_steps", "96", *flag).code == 0
