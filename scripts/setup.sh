#!/usr/bin/env bash
# Brings what the build needs and says in one line what it could not bring: Debian packages by apt, libtorch by pip
# into build/torch. An existing libtorch is taken from OPENWORK_TORCH or the active Python environment. Writes
# libtorch's place to build/torch-path. A second run on a set-up machine returns at once.
#   setup.sh build   what compiles and runs the program: all that `make demo` needs
#   setup.sh test    and what the tests use: GoogleTest, a browser, clang with its sanitizers and fuzzer
#   setup.sh cuda    as build, and nvcc (as pip packages), to compile the GPU kernels without a toolkit
#   setup.sh all     as test; the one that may call sudo, because a person typed `make setup`
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
want=${1:-build}

packages=(build-essential cmake ninja-build ccache pkg-config libfmt-dev nlohmann-json3-dev libcli11-dev
  libpcre2-dev libutf8proc-dev liblzma-dev libzstd-dev libcurl4-openssl-dev libssl-dev libcairo2-dev libpango1.0-dev
  zlib1g-dev fonts-dejavu-core python3 python3-pip)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev libcpp-httplib-dev clang clang-format clang-tidy
  libclang-rt-14-dev)
case $want in test | all) packages+=("${test_packages[@]}") ;; esac
torch_packages=(torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
nvcc_packages=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-cccl==13.0.85)

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

# Into a folder beside, then laid over: pip would replace the folder "nvidia", which several packages share.
bring_by_pip() {
  local target=$1 incoming=$1.incoming; shift
  say "pip install --target $target $*"
  rm -rf "$incoming"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$incoming" "$@" ||
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

case $want in test | all) install_browser ;; esac
torch=$(find_torch)
has_torch "$torch" || bring_by_pip "$torch" "${torch_packages[@]}"
if [ "$want" = cuda ] && ! command -v nvcc >/dev/null && [ ! -x "$torch/nvidia/cu13/bin/nvcc" ]; then
  bring_by_pip "$torch" "${nvcc_packages[@]}"
fi
[ "$(cat build/torch-path 2>/dev/null)" = "$torch" ] || echo "$torch" >build/torch-path
