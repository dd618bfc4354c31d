#!/usr/bin/env bash
# The Python wheel from the C++ build in build/, into build/wheel. Needs what `setup.sh wheel` brings.
#   wheel.sh [DIR]   another folder for the wheel
set -euo pipefail
out=$(realpath -m -- "${1:-$(dirname "$0")/../build/wheel}")   # DIR is of where this was typed
cd "$(dirname "$0")/.."
cached() { sed -n "s/^$1:[A-Z]*=//p" build/CMakeCache.txt; }
python=$(cached Python_EXECUTABLE)
# scikit-build-core configures the build for a folder of its own; afterwards it is as it was.
prefix=$(cached CMAKE_INSTALL_PREFIX) wanted=$(cached OPENWORK_PYTHON)
trap 'cmake build -DCMAKE_INSTALL_PREFIX="$prefix" -DOPENWORK_PYTHON="$wanted" >build/configure.log 2>&1' EXIT
rm -f "$out"/openwork-*.whl
PYTHONPATH=$PWD/build/python-packages "${python:-python3}" -m pip wheel . --no-build-isolation --no-deps --quiet \
  --disable-pip-version-check --wheel-dir "$out" --config-settings build-dir=build >build/wheel.log 2>&1 ||
  { tail -n 5 build/wheel.log; echo "wheel: failed; build/wheel.log; see there" >&2; exit 1; }
ls "$out"/*.whl
