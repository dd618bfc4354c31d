#!/usr/bin/env bash
# Brings what the build needs and says in one line what it could not bring: Debian packages by apt, libtorch by pip
# into build/torch. An existing libtorch is taken from OPENWORK_TORCH or the active Python environment. Writes
# libtorch's place to build/torch-path. A second run on a set-up machine returns at once.
#   setup.sh build   what compiles and runs the program: all that `make demo` needs
#   setup.sh test    and what the tests use: GoogleTest, a browser, node, clang with its sanitizers and fuzzer, Python packages
#   setup.sh wheel   as build, and what makes the Python package (pip packages, into build/python-packages)
#   setup.sh cuda    as build, and nvcc (as pip packages), to compile the GPU kernels without a toolkit
#   setup.sh all     as test; the one that may call sudo, because a person typed `make setup`
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
want=${1:-build}

packages=(build-essential cmake ninja-build ccache pkg-config libfmt-dev nlohmann-json3-dev libcli11-dev
  libpcre2-dev libutf8proc-dev liblzma-dev libzstd-dev libcurl4-openssl-dev libssl-dev libcairo2-dev libpango1.0-dev
  zlib1g-dev libcpp-httplib-dev fonts-dejavu-core python3 python3-pip)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev clang clang-format clang-tidy
  libclang-rt-14-dev)
case $want in test | all) packages+=("${test_packages[@]}") ;; esac
case $want in wheel | test | all) packages+=(python3-dev) ;; esac

# Root installs. Anybody else is told the one command, unless `make setup` was typed by name and sudo asks nothing.
choose_apt() {
  command -v apt-get >/dev/null || return 1
  apt=(apt-get)
  [ "$(id -u)" -eq 0 ] && return 0
  apt=(sudo -n apt-get)
  [ "$want" = all ] && sudo -n true 2>/dev/null
}

say() { printf 'setup: %s\n' "$*" >&2; }

missing_packages() {
  command -v dpkg-query >/dev/null || return 0
  dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null | awk '$2 == "installed" {print $1}' |
    sort >build/installed.txt || true
  printf '%s\n' "${packages[@]}" | sort | comm -23 - build/installed.txt
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  # python and pip may come from elsewhere; only ask for Debian's where there are none.
  if python3 -m pip --version >/dev/null 2>&1; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | grep -vxE 'python3|python3-pip' || true)
  fi
  if python3 -c "import os, sysconfig as s; assert os.path.exists(s.get_path('include') + '/Python.h')" 2>/dev/null; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | grep -vx python3-dev || true)
  fi
  [ "${#missing[@]}" -eq 0 ] || [ -z "${missing[0]}" ] && return 0
  local apt
  choose_apt || { say "please install: apt-get install -y --no-install-recommends ${missing[*]}"; exit 2; }
  say "installing ${missing[*]}"
  "${apt[@]}" update -qq
  DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y -qq --no-install-recommends "${missing[@]}" >build/apt.log 2>&1 ||
    { say "apt-get failed (see build/apt.log); please install: ${missing[*]}"; exit 2; }
}

has_torch() { [ -e "$1/lib/libtorch_cpu.so" ] || [ -e "$1/torch/lib/libtorch_cpu.so" ]; }

find_torch() {
  if [ -n "${OPENWORK_TORCH:-}" ]; then
    has_torch "$OPENWORK_TORCH" || { say "OPENWORK_TORCH=$OPENWORK_TORCH holds no libtorch (lib/libtorch_cpu.so)"; exit 2; }
    (cd "$OPENWORK_TORCH" && pwd)
    return
  fi
  if [ -n "${VIRTUAL_ENV:-}${CONDA_PREFIX:-}" ]; then
    local site
    site=$(python3 -c "import importlib.util as u,os
s=u.find_spec('torch')
print(os.path.dirname(list(s.submodule_search_locations)[0]) if s else '')" 2>/dev/null || true)
    if [ -n "$site" ] && has_torch "$site"; then echo "$site"; return; fi
  fi
  echo "$PWD/build/torch"
}

# Into a folder beside, then laid over: pip would replace the folder "nvidia", which several packages share. Wheels alone, each
# with a hash that the requirements file names: nothing of a package runs while it is installed.
bring_by_pip() {
  local target=$1 incoming=$1.incoming requirements=$2
  say "pip install --require-hashes --only-binary :all: --target $target -r $requirements"
  rm -rf "$incoming"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --require-hashes \
    --only-binary :all: --target "$incoming" -r "$requirements" ||
    { say "pip failed; please install libtorch 2.11 and set OPENWORK_TORCH=/path"; exit 2; }
  mkdir -p "$target"
  cp -al "$incoming/." "$target/" 2>/dev/null || cp -a "$incoming/." "$target/"
  rm -rf "$incoming"
}

install_packages
# A browser opens the comparison page in the tests; they skip, and say so, where it cannot be had.
install_browser() {
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null && return 0
  [ -e build/no-browser ] && return 0  # asked once
  local apt
  choose_apt || { say "no chromium here: the tests of the page will skip"; return 0; }
  say "installing chromium (for the tests of the page)"
  DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y -qq --no-install-recommends chromium >build/browser.log 2>&1 ||
    { touch build/no-browser; say "no chromium here (see build/browser.log): the tests of the page will skip"; }
}

# Node and the viewer's packages, for the tests of the viewer; its built files are committed, so nothing else needs them.
install_viewer_packages() {
  [ viewer/node_modules/.package-lock.json -nt viewer/package-lock.json ] || [ -e build/no-node ] && return 0
  local apt
  if ! command -v npm >/dev/null; then
    choose_apt || { say "no npm here: the tests of the viewer will skip"; return 0; }
    say "installing nodejs and npm (for the tests of the viewer)"
    DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y -qq --no-install-recommends nodejs npm >build/node.log 2>&1 ||
      { touch build/no-node; say "no npm here (see build/node.log): the tests of the viewer will skip"; return 0; }
  fi
  say "npm ci in viewer/"
  (cd viewer && npm ci --no-audit --no-fund) >build/npm.log 2>&1 ||
    { touch build/no-node; say "npm ci failed (see build/npm.log): the tests of the viewer will skip"; }
}

# What the Python package is made with, and what its tests use: wheels by hash, with all they need but torch, which is the
# build's own. Where they cannot be had (another Python, no network) the tests of the package skip.
bring_python() {
  local target=build/python-packages requirements=scripts/requirements-$1.txt
  [ "$target/.$1" -nt "$requirements" ] && return 0
  say "pip install --require-hashes --only-binary :all: --target $target -r $requirements"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --require-hashes \
    --only-binary :all: --upgrade --target "$target" -r "$requirements" >build/pip.log 2>&1 ||
    { say "pip failed (see build/pip.log): tests of the Python package will skip"; return 0; }
  touch "$target/.$1"
}

case $want in wheel | test | all) bring_python wheel ;; esac
case $want in test | all)
  install_browser
  install_viewer_packages
  bring_python python-tests
  ;;
esac
torch=$(find_torch)
has_torch "$torch" || bring_by_pip "$torch" scripts/requirements-torch.txt
if [ "$want" = cuda ] && ! command -v nvcc >/dev/null && [ ! -x "$torch/nvidia/cu13/bin/nvcc" ]; then
  bring_by_pip "$torch" scripts/requirements-nvcc.txt
fi
[ "$(cat build/torch-path 2>/dev/null)" = "$torch" ] || echo "$torch" >build/torch-path
