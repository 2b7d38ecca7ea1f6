"""What `import evalframe` loads: nothing that a user who only scores rows would wait for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import evalframe

# The suite's own package, also where it is not installed.
WHERE = Path(evalframe.__file__).parents[1]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """The names of all modules that are loaded right after `import evalframe`."""
    code = "import evalframe, json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": str(WHERE)},
        cwd=tmp_path_factory.mktemp("elsewhere"),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "module",
    [
        "datasets",
        "duckdb",
        "jinja2",
        "matplotlib",
        "onnxruntime",
        "openai",
        "polars",
        "pyarrow.dataset",
        "pyarrow.parquet",
        "rapidfuzz",
        "tokenizers",
        "tqdm",
    ],
)
def test_import_evalframe_leaves_heavy_modules_unloaded(loaded, module):
    """A heavy module is loaded by the first call that needs it, not by the import."""
    assert module not in loaded


def test_import_evalframe_is_quiet(loaded):
    """The import succeeds with every warning an error, and writes nothing."""
    assert "evalframe" in loaded
