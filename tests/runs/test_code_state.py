"""The code that a run was made with, in its folder: bounded, and without secrets."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rl_lightning.redaction import without_secrets
from rl_lightning.runs.store import code_state
from rl_lightning.runs.store.code_state import FILE


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    for words in (["init", "-q"], ["config", "user.name", "n"], ["config", "user.email", "e"]):
        subprocess.run(["git", "-C", folder, *words], check=True)
    for name in ("a.py", "deploy.key", ".env"):
        (folder / name).write_text("lr = 1\n")
    subprocess.run(["git", "-C", folder, "add", "."], check=True)
    subprocess.run(["git", "-C", folder, "commit", "-qm", "first"], check=True)
    return folder


def state(checkout: Path, run: Path) -> dict:
    run.mkdir(exist_ok=True)
    found = code_state.code_state(run, checkout)
    assert found is not None and len(found["commit"]) == 40
    return found


def test_changes_lie_beside_the_record(checkout: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert state(checkout, run)["diff"] == "" and not (run / FILE).exists()
    (checkout / "a.py").write_text("lr = 2\nschön = '\\udcff'\n", encoding="utf-8", errors="replace")
    (checkout / "new.py").write_text("x")
    found = state(checkout, run)
    assert found["diff_file"] == FILE and found["untracked"] == ["new.py"] and len(found["diff"]) == 16
    subprocess.run(["git", "-C", checkout, "checkout", "-q", "a.py"], check=True)
    subprocess.run(["git", "-C", checkout, "apply", run / FILE], check=True)
    assert "lr = 2" in (checkout / "a.py").read_text(), "the changes can be applied again"


def test_no_secret_gets_in(checkout: Path, tmp_path: Path) -> None:
    (checkout / "deploy.key").write_text("geheim")
    (checkout / ".env").write_text("geheim")
    (checkout / "a.py").write_text(
        'API_KEY = "geheim"\npassword: geheim123\nurl = "postgresql://me:geheim@host/db"\n'
        "-----BEGIN RSA PRIVATE KEY-----\ngeheim\n-----END RSA PRIVATE KEY-----\n"
        "x = 'ghp_geheimgeheimgeheim0123456'\n"
    )
    run = tmp_path / "run"
    state(checkout, run)
    text = (run / FILE).read_text()
    assert "API_KEY" in text and "geheim" not in text and "deploy" not in text and ".env" not in text


@pytest.mark.parametrize(
    "line",
    ["token = self.embed(x)", "num_tokens = 3", "tokens: list[int] = []", "secret_sauce = a + b", "key = 5"],
)
def test_code_about_tokens_stays_code(line: str) -> None:
    assert without_secrets(line) == line


def test_size_is_bounded_and_said(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_state, "LIMIT", 1000)
    (checkout / "a.py").write_text("y = 1\n" * 1000)
    run = tmp_path / "run"
    found = state(checkout, run)
    assert found["diff_note"].startswith("cut after 1000 of ") and (run / FILE).stat().st_size < 1100
    assert (run / FILE).read_text().splitlines()[-1] == f"# {found['diff_note']}"


def test_outside_a_checkout_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert code_state.code_state(tmp_path, tmp_path) is None


def test_of_an_installed_package_the_users_own_checkout_counts(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    found = code_state.code_state(None, tmp_path)
    assert found is not None and len(found["commit"]) == 40
