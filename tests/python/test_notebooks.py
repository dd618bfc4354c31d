"""The notebooks in examples/ run from top to bottom, and what is kept of their outputs is small."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
RUNNER = Path(__file__).parent / "run_notebook.py"


def test_there_are_three():
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook):
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("pandas", reason="pandas is not installed")
    done = subprocess.run(
        [sys.executable, RUNNER, notebook], capture_output=True, text=True, check=False, cwd=notebook.parent,
        env={**os.environ, "OPENWORK_PROGRESS": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_small(notebook):
    assert notebook.stat().st_size < 300_000
