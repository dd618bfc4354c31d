"""The package as it is installed: what importing costs and checks, the wheel, the program on the PATH."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from conftest import ROOT

import openwork

BUILD = Path(os.environ.get("OPENWORK_BUILD", ROOT / "build"))


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def test_importing_takes_little_beyond_torch():
    """In seconds of the processor, the best of three: what else the machine does is not measured."""
    code = "import time, torch; t = time.process_time(); import openwork; print(time.process_time() - t)"
    assert min(float(run_python(code).stdout) for _ in range(3)) < 0.3


def test_importing_leaves_transformers_and_the_core_alone():
    code = "import sys, openwork; print('transformers' in sys.modules, 'openwork._core' in sys.modules)"
    assert run_python(code).stdout.split() == ["False", "False"]


def test_transformers_knows_the_attention_whichever_is_imported_first():
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    for order in ("openwork, transformers", "transformers, openwork"):
        code = f"import {order}; from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as a; print('openwork' in a)"
        done = run_python(code)
        assert done.stdout.strip() == "True", done.stderr


def test_a_script_may_end_with_a_model_in_its_hands():
    """Where NumPy is missing, the model lives until after nanobind looks for what was lost."""
    done = run_python("import sys; sys.modules['numpy'] = None; import openwork; model = openwork.Model('openwork-8m')")
    assert done.returncode == 0, done.stderr
    assert "nanobind" not in done.stderr


@pytest.mark.parametrize(("name", "value", "line"), [("TORCH", "1.0", "for torch 1.0, not"), ("PYTHON", "3.0", "for Python 3.0, not")])
def test_a_build_for_another_version_says_so_in_one_line(name, value, line):
    code = f"import sys, types, importlib.util as u; b = types.ModuleType('openwork._build'); b.VERSION = '0'; b.PYTHON = '{'{}.{}'.format(*sys.version_info[:2])}'; b.TORCH = '{'.'.join(torch.__version__.split('.')[:2])}'; b.{name} = '{value}'; sys.modules['openwork._build'] = b; import openwork"
    done = run_python(code)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode != 0 and line in last and last.count("; ") == 2


def test_a_missing_library_is_named():
    from openwork._library import _explain

    error = ImportError("libpcre2-8.so.0: cannot open shared object file: No such file or directory")
    assert str(_explain(error, "openwork._core")) == "libpcre2-8.so.0 is missing; openwork._core; apt-get install libpcre2-8-0"


def test_a_library_that_is_not_there_is_named_when_the_core_is_wanted(tmp_path):
    """The package as it is, with a libopenwork.so that needs what no machine has."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    package, here = tmp_path / "openwork", Path(openwork.__file__).parent
    (package / "lib").mkdir(parents=True)
    for path in here.iterdir():
        if path.name.startswith("_core.cpython"):
            shutil.copy(path, package)  # not a link: it looks for libraries where it lies
        elif path.name != "lib":
            (package / path.name).symlink_to(path.resolve())
    (package / "lib" / "libopenwork_ops.so").symlink_to((here / "lib" / "libopenwork_ops.so").resolve())
    (tmp_path / "empty.c").write_text("")
    made = package / "lib"
    for words in (
        ["-Wl,-soname,libcairo.so.99", "-o", made / "libcairo.so.99", tmp_path / "empty.c"],
        ["-Wl,--no-as-needed", "-o", made / "libopenwork.so", tmp_path / "empty.c", made / "libcairo.so.99"],
    ):
        subprocess.run(["cc", "-shared", "-fPIC", *map(str, words)], check=True)
    (made / "libcairo.so.99").unlink()
    path = ":".join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run_python("import openwork; print(openwork.__file__); openwork.Model('openwork-8m')", PYTHONPATH=path)
    assert done.stdout.startswith(str(package)), done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last == "ImportError: libcairo.so.99 is missing; openwork._core; apt-get install libcairo2"


def test_everything_public_has_a_docstring_and_types():
    for name in openwork.__all__:
        thing = getattr(openwork, name)
        assert thing.__doc__, name
    for method in vars(openwork.Model).values():
        if callable(method) and not method.__name__.startswith("_"):
            assert method.__doc__ and method.__annotations__, method
    assert (Path(openwork.__file__).parent / "py.typed").exists()


def test_the_stub_of_the_core_names_what_is_there():
    """Every class, method, function and argument of _core.pyi, and no other."""
    from openwork._library import core

    tree = ast.parse((Path(openwork.__file__).parent / "_core.pyi").read_text())
    said = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            said |= {f"{node.name}.{each.name}": each for each in node.body if each.name != "__init__"}
        elif isinstance(node, ast.FunctionDef):
            said[node.name] = node
    there = {}
    for name, thing in vars(core()).items():
        members = vars(thing) if isinstance(thing, type) else {}
        there |= {f"{name}.{key}": value for key, value in members.items() if not key.startswith("_")}
        if callable(thing) and not members:
            there[name] = thing
    assert said.keys() == there.keys()
    for name, node in said.items():
        names = [each.arg for each in node.args.args if each.arg != "self"]
        signature = (there[name].__doc__ or "").splitlines()[0] if names else ""
        assert re.findall(r"(\w+): ", signature) == names, name


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if importlib.util.find_spec("scikit_build_core") is None:
        pytest.skip("scikit-build-core is not installed")
    if not (ROOT / "build" / "CMakeCache.txt").exists():
        pytest.skip("no C++ build here to make a wheel of")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run([ROOT / "scripts" / "wheel.sh", folder / "out"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next((folder / "out").glob("openwork-*.whl"))


def test_the_wheel_has_everything_and_no_torch(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    wanted = ["bin/openwork", "lib/libopenwork.so", "lib/libopenwork_ops.so", "py.typed", "_core.pyi", "_build.py",
              "models/openwork-8m/model.safetensors", "models/openwork-8m-sparse/config.json"]  # fmt: skip
    assert all(f"openwork/{name}" in names for name in wanted)
    assert any(re.fullmatch(r"openwork/_core\.cpython-.*\.so", name) for name in names)
    assert not [name for name in names if "torch" in name or "__pycache__" in name]
    assert "cp{}{}-".format(*sys.version_info[:2]) in wheel.name


def test_the_wheel_installs_and_runs_where_the_build_is_not(wheel, tmp_path):
    site = tmp_path / "site"
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for library in ("bin/openwork", "lib/libopenwork.so", "lib/libopenwork_ops.so"):
        dynamic = subprocess.run(["readelf", "-d", site / "openwork" / library], capture_output=True, text=True, check=False).stdout
        assert str(ROOT) not in dynamic and "$ORIGIN/../../torch/lib" in dynamic
    path = ":".join([str(site), *os.environ.get("PYTHONPATH", "").split(":")[1:]])
    code = "import openwork; m = openwork.Model('openwork-8m'); print(openwork.__file__, m.run('A B A').logits.shape[-1])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    assert done.stdout.split() == [str(site / "openwork" / "__init__.py"), "8192"], done.stderr
    done = subprocess.run([site / "bin" / "openwork", "run", "openwork-8m", "A B A", "--top", "1"], capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    loaded = "import openwork; openwork.Model('openwork-8m'); print({l.split()[-1] for l in open('/proc/self/maps') if 'libtorch_cpu' in l or 'libc10.so' in l})"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    assert done.stdout.count("libtorch_cpu.so") == 1 and done.stdout.count("libc10.so") == 1, done.stdout
