# The commands people type. `make` builds; `make demo` and `make test` set everything up first.
# Settings: OPENWORK_TORCH=/path takes an existing libtorch; JOBS=N compiles N files at a time.
JOBS ?= $(shell nproc)
SHELL := bash
# With the libtorch that setup found.
CMAKE_SET_UP = OPENWORK_TORCH="$$(cat build/torch-path)" cmake

.PHONY: build setup cuda wheel demo test test-sanitize test-crash fuzz bench format lint install clean

# The program and its libraries, nothing else: no test is compiled, and nothing only tests need is installed.
build:
	@scripts/setup.sh build
	@[ build/build.ninja -nt build/torch-path ] || $(MAKE) --no-print-directory configure
	@cmake --build build -j $(JOBS) --target program -- --quiet

# By hand: everything any target here needs, with sudo where it asks no password.
setup:
	@scripts/setup.sh all

.PHONY: configure
configure:
	@$(CMAKE_SET_UP) --preset release $(if $(TESTS),-DOPENWORK_TESTS=$(TESTS)) >build/configure.log || { cat build/configure.log; exit 1; }

cuda:
	@scripts/setup.sh cuda
	@$(CMAKE_SET_UP) --preset cuda -DOPENWORK_TESTS=OFF >build/configure.log || { cat build/configure.log; exit 1; }
	@cmake --build --preset cuda -j $(JOBS) --target program

# The Python wheel, of the C++ build that is here: nothing is compiled twice.
wheel: build
	@scripts/setup.sh wheel
	@$(MAKE) --no-print-directory configure
	@cmake --build build -j $(JOBS) --target python_package -- --quiet
	@scripts/wheel.sh

test:
	@scripts/setup.sh test
	@grep -qs OPENWORK_TESTS:BOOL=ON build/CMakeCache.txt || $(MAKE) --no-print-directory configure TESTS=ON
	@cmake --build build -j $(JOBS) -- --quiet
	@scripts/test.sh

# Every room under asan and ubsan, then the threads of those that know no torch under tsan.
test-sanitize:
	@scripts/setup.sh test
	@for kind in asan tsan; do \
	  $(CMAKE_SET_UP) --preset $$kind >build/$$kind-configure.log || { cat build/$$kind-configure.log; exit 1; }; \
	  cmake --build --preset $$kind -j $(JOBS) -- --quiet || exit 1; \
	  ctest --test-dir build/$$kind --output-on-failure -j $(JOBS) || exit 1; \
	done

# Every place where a kill or a failing disk can meet a command; prints the table of docs/results. About an hour.
test-crash:
	@scripts/setup.sh test
	@grep -qs OPENWORK_TESTS:BOOL=ON build/CMakeCache.txt || $(MAKE) --no-print-directory configure TESTS=ON
	@cmake --build build -j $(JOBS) --target crash_tests -- --quiet
	@OPENWORK_CRASH=all OMP_NUM_THREADS=1 build/tests/crash_tests

# Each fuzzer for its share of MINUTES, from what it found before.
MINUTES ?= 10
fuzz:
	@scripts/setup.sh test
	@scripts/fuzz.sh $(MINUTES)

demo: build
	@scripts/demo.sh

bench: build
	@build/openwork bench load && build/openwork bench tokenize --data tests/data/held_out.txt && build/openwork bench attention
	@viewer/test/run.sh bench build || [ $$? -eq 77 ]

# What a target needs, or the one line that brings it.
.PHONY: have-clang-format have-clang-tidy
have-clang-format have-clang-tidy: have-%:
	@command -v $* >/dev/null || { echo "setup: please install: apt-get install -y --no-install-recommends $*" >&2; exit 2; }

format: have-clang-format
	@git ls-files '*.cpp' '*.h' '*.cu' '*.cuh' | xargs clang-format -i

lint: have-clang-tidy build
	@git ls-files 'src/*.cpp' | xargs -P $(JOBS) -n 1 clang-tidy --quiet -p build

install: build
	@cmake --install build $(if $(PREFIX),--prefix "$(patsubst ~/%,$(HOME)/%,$(PREFIX))")

clean:
	@cmake --build build --target clean
