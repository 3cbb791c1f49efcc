// main() of every Google Benchmark binary.
#include <benchmark/benchmark.h>

BENCHMARK_MAIN();
