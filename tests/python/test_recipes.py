"""Runs the programs of docs/guide/python_recipes.md as they are, and the notebook beside it."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tensorcask as tc

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "guide" / "python_recipes.md"
NOTEBOOK = ROOT / "docs" / "guide" / "python_tour.ipynb"
PROGRAMS = {name: code for code, name in re.findall(r"```python\n(# (\w+\.py)\n.*?)```", PAGE.read_text(), re.DOTALL)}


def start(name, folder="."):
    os.makedirs(folder, exist_ok=True)
    path = pathlib.Path(folder, name)
    path.write_text(PROGRAMS[name])
    if "torch" in PROGRAMS[name]:
        pytest.importorskip("torch")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, name], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(name, folder="."):
    process = start(name, folder)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "Warning" not in errors, errors
    return out


def test_all_programs_are_run_here():
    source = pathlib.Path(__file__).read_text()
    assert len(PROGRAMS) > 6 and PAGE.read_text().count("```python") == len(PROGRAMS)
    for name in PROGRAMS:
        assert f'"{name}"' in source, name


def saved_model(folder):
    """A SavedModel of Keras, if the test data has one; otherwise a checkpoint with the same names."""
    source = pathlib.Path(os.environ.get("TENSORCASK_TEST_DATA", ""), "tensorflow", "tfkeras-loss-scale-2shards")
    os.makedirs(folder + "/variables")
    if not source.is_dir():
        weights = {"kernel": np.eye(2, dtype=np.float32), "bias": np.ones(2, np.float32)}
        tc.save(folder + "/variables/variables", {f"sequential/dense/{name}": array for name, array in weights.items()})
        return weights["kernel"]
    for path in source.glob("*.index"):
        prefix = path.name.removesuffix(".index")
    for path in source.glob(prefix + ".*"):
        shutil.copy(path, folder + "/variables/variables" + path.name.removeprefix(prefix))
    return tc.load(str(source / prefix))["layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE"]


def test_a_saved_model_as_safetensors():
    kernel = saved_model("saved_model")
    assert "sequential/dense/kernel float32 (2, 2)" in run("to_safetensors.py")
    assert np.array_equal(tc.load("model.safetensors")["sequential.dense.kernel"], kernel)


def test_a_saved_model_in_pytorch():
    kernel = saved_model("saved_model")
    run("to_pytorch.py")
    assert np.array_equal(tc.load("linear.safetensors")["0.weight"], kernel.T)


def newest_step(folder):
    found = [
        *pathlib.Path(folder, "run").glob("ckpt-*.index"),
    ]
    return max((int(path.name.removeprefix("ckpt-").removesuffix(".index")) for path in found), default=-1)


@pytest.mark.parametrize("name, kills", [("train_tree.py", 6), ("train.py", 2)])
def test_training_survives_kill_9(name, kills):
    run(name, "whole")
    killed = 0
    while killed < kills:
        process = start(name, "killed")
        before = newest_step("killed")
        while process.poll() is None and newest_step("killed") < before + 3:
            time.sleep(0.001)
        time.sleep(random.random() * 0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            break  # it was faster than the kill
        killed += 1
        assert newest_step("killed") > before
    assert killed > 0
    run(name, "killed")
    whole, found = (pathlib.Path(folder, "final.safetensors").read_bytes() for folder in ("whole", "killed"))
    assert found == whole


def test_batches_from_another_process():
    assert run("batches.py") == "sum of the means: 4950.0\n"


def test_batches_in_a_data_loader():
    assert run("loader.py") == f"batches: {list(range(20))}\n"


def test_rows_in_a_data_loader_with_workers():
    assert run("rows.py") == "sum: 499500.0\n"


# ---- The notebook ---------------------------------------------------------------------------------------------------


def test_the_notebook_runs():
    notebook = json.loads(NOTEBOOK.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 5
    for cell in cells:  # what is in the repository has no outputs
        assert cell["outputs"] == [] and cell["execution_count"] is None
    try:
        import nbclient
        import nbformat
    except ImportError:
        names = {}
        for cell in cells:
            exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), names)
        return
    executed = nbclient.NotebookClient(nbformat.read(NOTEBOOK, as_version=4), timeout=120).execute()
    outputs = [output for cell in executed.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("text/html" in output.get("data", {}) for output in outputs)
