"""What a run changed of the config it came from."""

from rl_lightning.runs.store.changed_settings import changed


def test_a_class_is_the_same_by_either_of_its_paths():
    shipped = {"model": {"class_path": "rl_lightning.nn.multi_input.MultiInput", "init_args": {}}}
    assert not changed({"model.class_path": "rl_lightning.nn.MultiInput"}, shipped)
    other = {"model.class_path": "mine.MultiInput"}
    assert changed(other, shipped) == {
        "model.class_path": (shipped["model"]["class_path"], "mine.MultiInput")
    }
