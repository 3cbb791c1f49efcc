# What only benchmarks need of C++: benchmarks/native. In a checkout alone, beside the Python of the benchmarks, never
# in a wheel. x.cc -> a library, x_test.cc -> its test, program.cc -> overlord-measure, bind_x.cc -> _bench_core.
set(overlord_bench_dir "${PROJECT_SOURCE_DIR}/benchmarks/native")
file(GLOB overlord_bench_sources CONFIGURE_DEPENDS "${overlord_bench_dir}/*.cc")
set(overlord_bench_tests ${overlord_bench_sources})
set(overlord_bench_bindings ${overlord_bench_sources})
list(FILTER overlord_bench_tests INCLUDE REGEX "_test\\.cc$")
list(FILTER overlord_bench_bindings INCLUDE REGEX "/bind_[a-z]+\\.cc$")
list(FILTER overlord_bench_sources EXCLUDE REGEX "(_test|/bind_[a-z]+|/program)\\.cc$")

add_library(overlord_bench STATIC ${overlord_bench_sources})
overlord_in_batches(overlord_bench 0)
target_include_directories(overlord_bench PUBLIC "${overlord_bench_dir}")
target_link_libraries(overlord_bench PUBLIC overlord_node)
if(OVERLORD_BUILD_TESTS)
  overlord_gtest(overlord_bench_test "${overlord_bench_tests}" overlord_bench overlord_testing)
endif()
if(NOT OVERLORD_EXTENSION)
  return()
endif()

set(overlord_bench_package "${PROJECT_SOURCE_DIR}/benchmarks/overlord_bench")
add_executable(overlord-measure "${overlord_bench_dir}/program.cc")
target_link_libraries(overlord-measure PRIVATE overlord_bench Threads::Threads)
set_target_properties(overlord-measure PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${overlord_bench_package}")

overlord_extension(_bench_core "${overlord_bench_package}" ${overlord_bench_bindings})
target_link_libraries(_bench_core PRIVATE overlord_bench)
add_dependencies(overlord_benchmarks overlord-measure _bench_core)
