# The commands people type. `make` builds; `make demo` and `make test` set everything up first.
# Settings: OPENWORK_TORCH=/path takes an existing libtorch; JOBS=N compiles N files at a time.
JOBS ?= $(shell nproc)
-include build/setup.mk
export OPENWORK_TORCH = $(TORCH)
SHELL := bash

.PHONY: build setup cuda demo test test-sanitize bench format lint install clean

build: setup
	@$(MAKE) --no-print-directory configured
	@cmake --build build -j $(JOBS) -- --quiet

.PHONY: configured
configured:
	@[ -f build/build.ninja ] || cmake --preset release >build/configure.log || { cat build/configure.log; exit 1; }

setup:
	@scripts/setup.sh

cuda:
	@scripts/setup.sh cuda
	@$(MAKE) --no-print-directory configured
	@cmake --preset cuda >/dev/null && cmake --build --preset cuda -j $(JOBS)

test: build
	@scripts/test.sh

test-sanitize: setup
	@cmake --preset asan >/dev/null && cmake --build --preset asan -j $(JOBS)
	@ctest --test-dir build/asan --output-on-failure

demo: build
	@scripts/demo.sh

bench: build
	@build/openwork bench load && build/openwork bench tokenize && build/openwork bench attention

format:
	@git ls-files '*.cpp' '*.h' '*.cu' '*.cuh' | xargs clang-format -i

lint: build
	@git ls-files 'src/*.cpp' | xargs -P $(JOBS) -n 1 clang-tidy --quiet -p build

install: build
	@cmake --install build $(if $(PREFIX),--prefix $(PREFIX))

clean:
	@cmake --build build --target clean
