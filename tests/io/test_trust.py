"""Why a file of tensors is not loaded."""

import pickle
from pathlib import Path

import pytest

from rl_lightning.errors import ResumeError
from rl_lightning.io.checkpoint_files import read_file
from rl_lightning.io.trust import why_not_loaded


def test_torchs_advice_is_not_handed_on(tmp_path: Path) -> None:
    (tmp_path / "a.ckpt").write_bytes(pickle.dumps(Path("x")))
    with pytest.raises(ResumeError) as raised:
        read_file(tmp_path / "a.ckpt")
    assert "weights_only" not in str(raised.value) and "more than tensors" in str(raised.value)


def test_a_long_reason_ends_at_a_word() -> None:
    text = why_not_loaded(ValueError("word " * 100))
    assert text.endswith("word ...") and len(text) < 170
