# The short commands of the house; each prepares what it needs. `make help` lists them.
# JOBS limits how many compilers run at once.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

# How many threads a shell allows OpenMP is nothing to compilers, but nproc heeds it.
JOBS ?= $(shell env -u OMP_NUM_THREADS nproc)
export PATH := $(CURDIR)/.venv/bin:$(PATH)
PYTHON := .venv/bin/python

.PHONY: help
help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

.PHONY: run
run: setup ## set up, build the product, run the demonstration
	@mkdir -p build
	cmake --preset dev >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	cmake --build build -j $(JOBS) --target product
	.venv/bin/overlord demo

.PHONY: setup
setup: ## prepare the machine and .venv to build and run
	@tools/setup.sh run

.PHONY: setup-test
setup-test: ## the same, with everything the checks need
	@tools/setup.sh test

.PHONY: build
build: setup ## build everything, tests included
	@mkdir -p build
	cmake --preset dev >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	cmake --build build -j $(JOBS)

.PHONY: test
test: setup ## build and run every check and test
	@mkdir -p build
	cmake --preset dev >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	tools/check.sh

.PHONY: asan
asan: setup ## C++ tests under the address and undefined behaviour sanitizers
	@cmake --preset asan-ubsan
	cmake --build --preset asan-ubsan -j $(JOBS) --target overlord_tests check_headers
	ctest --preset asan-ubsan -j $(JOBS)

# The thread sanitizer of older compilers cannot live with randomised addresses on newer kernels.
.PHONY: tsan
tsan: setup ## C++ tests under the thread sanitizer
	@cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS) --target overlord_tests
	fixed_addresses=()
	if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi
	"$${fixed_addresses[@]}" ctest --preset tsan -j $(JOBS)

.PHONY: fuzz
fuzz: setup ## every fuzz target for a while, sanitized; FUZZ_SECONDS sets how long each (600), FUZZ picks some
	@cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS) --target overlord_fuzzers
	mkdir -p build-fuzz/crashes
	export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0
	seconds=$${FUZZ_SECONDS:-600}
	for binary in build-fuzz/bin/overlord_*$${FUZZ:-}*_fuzz; do
	  "$$binary" --seconds=$$seconds -max_total_time=$$seconds --seed=$$RANDOM \
	    --out=build-fuzz/crashes -artifact_prefix=build-fuzz/crashes/
	done

.PHONY: clang-check
clang-check: ## clang: locks guard what they say, and every fuzz target as libFuzzer's for FUZZ_SECONDS (60)
	@tools/setup.sh extended
	mkdir -p build-clang/crashes
	cmake --preset clang
	JOBS=$(JOBS) $(PYTHON) tools/clang_check.py
	cmake --build --preset clang -j $(JOBS) --target overlord_fuzzers
	export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0
	for binary in build-clang/bin/overlord_*$${FUZZ:-}*_fuzz; do
	  "$$binary" -max_total_time=$${FUZZ_SECONDS:-60} -artifact_prefix=build-clang/crashes/
	done

.PHONY: bench
bench: setup ## micro benchmarks; results as JSON in build/benchmarks
	@cmake --preset dev -DOVERLORD_BENCHMARKS=ON
	cmake --build build -j $(JOBS) --target overlord_benchmarks
	mkdir -p build/benchmarks
	shopt -s nullglob
	for binary in build/bin/*_benchmark; do
	  "$$binary" --benchmark_out="build/benchmarks/$${binary##*/}.json" --benchmark_out_format=json
	done

.PHONY: wheel
wheel: ## build the wheel into build/wheel, with the codecs inside
	@tools/setup.sh wheel
	tools/wheel.sh build/wheel

.PHONY: wheel-check
wheel-check: wheel ## install the wheel into a bare Debian (debootstrap, as root) and run the demonstration there
	@cmake --preset dev >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	cmake --build build -j $(JOBS) --target _core overlord-node
	tools/wheel_check.sh build/wheel

.PHONY: peers
peers: wheel ## environment .venv-peers with the loaders that benchmarks compare with, and Overlord
	@tools/peers.sh

.PHONY: trainers
trainers: setup-test build ## trainers of others (tools/trainers.txt, in .venv-trainers) over the blocks of docs/trainers; TRAINERS picks some
	@tools/trainers.sh $(TRAINERS)

.PHONY: soak
soak: setup-test build ## storms of the simulated world over fresh seeds, and long runs; SEEDS worlds of each (20000)
	@tools/soak.sh
	OVERLORD_SOAK=1 ctest --preset dev -j $(JOBS)
	$(PYTHON) -m pytest -q -m soak || test $$? -eq 5

.PHONY: mutants
mutants: setup-test ## bugs of tests/mutants.txt: which of them end in a check of an invariant? MUTANTS picks some
	@mkdir -p build
	cmake --preset dev >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	cmake --build build -j $(JOBS) --target overlord_plan_test overlord_simulation_test
	JOBS=$(JOBS) $(PYTHON) tools/mutants.py $(MUTANTS)

.PHONY: chaos
chaos: setup-test build ## faults around a job at random moments, CHAOS_ROUNDS of each kind (100); or CHAOS_MINUTES of all kinds at once
	@$(PYTHON) -m pytest -q -m chaos python/tests/chaos$(if $(CHAOS_MINUTES),/test_long_runs.py)

.PHONY: ray
ray: setup-test build ## long tests under Ray: its own state dies, with Redis behind it and without; the contract of clusters
	@command -v redis-server >/dev/null || echo "ray: without redis-server one of them is skipped: apt-get install redis-server"
	$(PYTHON) -m pytest -q -m chaos python/tests/chaos/test_ray_store.py python/tests/engine/test_ray_cluster.py

.PHONY: flaky
flaky: setup-test build ## tests that start processes, on a busy machine; FLAKY_ROUNDS sets how often (20)
	@tools/flaky.sh

.PHONY: format
format: setup-test ## format C++ and Python
	@tools/cpp_files.sh | xargs -0 -r clang-format -i
	ruff check --quiet --fix . || true
	ruff format --quiet .

.PHONY: stubs
stubs: build ## write python/overlord/_core.pyi anew from the built extension
	@tools/stubs.sh

.PHONY: clean
clean: ## remove build folders; .venv stays
	@rm -rf build build-* python/overlord/_core*.so benchmarks/overlord_bench/_bench_core*.so
