# The functions with which cmake/rooms.cmake is written. A room is a folder under src/overlord. Files find
# their target by name: x.cc -> library, x_test.cc -> the room's test, x_benchmark.cc -> a benchmark,
# x_fuzz.cc -> a fuzz target (with OVERLORD_FUZZERS), main.cc -> an executable.

set(OVERLORD_SOURCE_ROOT "${PROJECT_SOURCE_DIR}/src/overlord")
add_custom_target(overlord_tests)
add_custom_target(overlord_benchmarks)
add_custom_target(check_headers)
add_custom_target(overlord_fuzzers)
set(OVERLORD_FUZZ_SMOKE_RUNS 2000)  # of each target, among the tests

# "roles/planner" -> "role_planner", "plan" -> "plan".
function(overlord_room_name room output)
  string(REGEX REPLACE "^roles/" "role_" name "${room}")
  set(${output} "${name}" PARENT_SCOPE)
endfunction()

# overlord_library(ROOM [DEPS room...] [LIBS target...] [TEST_ONLY])
# Makes static library overlord_<name> (alias overlord::<name>) of the room's sources, an INTERFACE library
# while it has none, together with the room's tests, link test, header check and benchmarks.
function(overlord_library room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TEST_ONLY" "" "DEPS;LIBS")
  if(arg_TEST_ONLY AND NOT OVERLORD_BUILD_TESTS)
    return()
  endif()
  overlord_room_name("${room}" name)
  set(target overlord_${name})

  file(GLOB sources CONFIGURE_DEPENDS "${OVERLORD_SOURCE_ROOT}/${room}/*.cc")
  list(FILTER sources EXCLUDE REGEX "(_test|_benchmark|_fuzz|/main)\\.cc$")
  set(links "${arg_LIBS}")
  foreach(dep IN LISTS arg_DEPS)
    overlord_room_name("${dep}" dep_name)
    list(APPEND links overlord_${dep_name})
  endforeach()

  if(sources)
    add_library(${target} STATIC ${sources})
    target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(${target} PUBLIC ${links})
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(${target} INTERFACE ${links})
  endif()
  add_library(overlord::${name} ALIAS ${target})

  if(OVERLORD_BUILD_TESTS)
    if(sources)
      overlord_link_test(${room} "${links}")
    endif()
    overlord_header_check(${room})
    overlord_tests(${room})
  endif()
  if(OVERLORD_BENCHMARKS)
    overlord_benchmarks(${room})
  endif()
  if(OVERLORD_FUZZERS AND OVERLORD_BUILD_TESTS)
    overlord_fuzzers(${room})
  endif()
endfunction()

# One GoogleTest binary, overlord_<name>_test, out of the room's x_test.cc files.
function(overlord_tests room)
  overlord_room_name("${room}" name)
  file(GLOB sources CONFIGURE_DEPENDS "${OVERLORD_SOURCE_ROOT}/${room}/*_test.cc")
  if(sources)
    overlord_gtest(overlord_${name}_test "${sources}" overlord_${name})
    # Rooms above `testing` may draw their inputs from it.
    if(NOT room MATCHES "^(base|model|testing)$")
      target_link_libraries(overlord_${name}_test PRIVATE overlord_testing)
    endif()
  endif()
endfunction()

# A GoogleTest binary registered with ctest as one test.
function(overlord_gtest target sources)
  add_executable(${target} ${sources} "${PROJECT_SOURCE_DIR}/cmake/gtest_main.cc")
  target_link_libraries(${target} PRIVATE ${ARGN} external::gtest Threads::Threads)
  # Tests are half of what a clean build compiles, and wait for the code under test, not for their own.
  target_compile_options(${target} PRIVATE -O1)
  add_test(NAME ${target} COMMAND ${target} --gtest_brief=1)
  set_tests_properties(${target} PROPERTIES TIMEOUT 600)
  add_dependencies(overlord_tests ${target})
endfunction()

# Links every object of the room's library with nothing but what the room declares: a call into an
# undeclared room is an undefined symbol here.
function(overlord_link_test room links)
  overlord_room_name("${room}" name)
  set(target overlord_${name}_link_test)
  add_executable(${target} "${PROJECT_SOURCE_DIR}/cmake/link_test_main.cc")
  target_link_libraries(${target} PRIVATE -Wl,--whole-archive "$<TARGET_FILE:overlord_${name}>"
                                          -Wl,--no-whole-archive ${links} Threads::Threads)
  add_dependencies(${target} overlord_${name})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS "$<TARGET_FILE:overlord_${name}>")
  add_dependencies(overlord_tests ${target})
endfunction()

# A header with a twin x.cc is compiled alone by that file, which includes it first (tools/rooms.py holds
# that rule). The headers without a twin get a generated file each, built by target check_headers.
function(overlord_header_check room)
  overlord_room_name("${room}" name)
  file(GLOB headers CONFIGURE_DEPENDS "${OVERLORD_SOURCE_ROOT}/${room}/*.h")
  set(generated "")
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "\\.h$" ".cc" twin "${header}")
    if(NOT EXISTS "${twin}")
      file(RELATIVE_PATH relative "${PROJECT_SOURCE_DIR}/src" "${header}")
      get_filename_component(stem "${header}" NAME_WE)
      set(file "${PROJECT_BINARY_DIR}/headers/${name}/${stem}.cc")
      file(CONFIGURE OUTPUT "${file}" CONTENT "#include \"${relative}\"\n#include \"${relative}\"\n" @ONLY)
      list(APPEND generated "${file}")
    endif()
  endforeach()
  if(generated)
    add_library(overlord_${name}_headers OBJECT EXCLUDE_FROM_ALL ${generated})
    target_link_libraries(overlord_${name}_headers PRIVATE overlord_${name})
    target_compile_options(overlord_${name}_headers PRIVATE -O0)
    add_dependencies(check_headers overlord_${name}_headers)
  endif()
endfunction()

# One Google Benchmark binary per x_benchmark.cc.
function(overlord_benchmarks room)
  overlord_room_name("${room}" name)
  file(GLOB sources CONFIGURE_DEPENDS "${OVERLORD_SOURCE_ROOT}/${room}/*_benchmark.cc")
  foreach(source IN LISTS sources)
    get_filename_component(stem "${source}" NAME_WE)
    set(target overlord_${name}_${stem})
    add_executable(${target} "${source}" "${PROJECT_SOURCE_DIR}/cmake/benchmark_main.cc")
    target_link_libraries(${target} PRIVATE overlord_${name} external::benchmark Threads::Threads)
    add_dependencies(overlord_benchmarks ${target})
  endforeach()
endfunction()

# One fuzz target per x_fuzz.cc: a libFuzzer binary where the compiler is clang, else one with the small
# fuzzer of cmake/fuzz_main.cc. Each runs for a moment among the tests; `make fuzz` runs them for long.
function(overlord_fuzzers room)
  overlord_room_name("${room}" name)
  file(GLOB sources CONFIGURE_DEPENDS "${OVERLORD_SOURCE_ROOT}/${room}/*_fuzz.cc")
  foreach(source IN LISTS sources)
    get_filename_component(stem "${source}" NAME_WE)
    set(target overlord_${name}_${stem})
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      add_executable(${target} "${source}")
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
      target_compile_options(overlord_${name} PRIVATE -fsanitize=fuzzer-no-link)
    else()
      add_executable(${target} "${source}" "${PROJECT_SOURCE_DIR}/cmake/fuzz_main.cc")
    endif()
    target_compile_options(${target} PRIVATE -O1)
    target_link_libraries(${target} PRIVATE overlord_${name} overlord_testing external::gtest Threads::Threads)
    # Each of the two fuzzers ignores what is for the other.
    add_test(NAME ${target} COMMAND ${target} --runs=${OVERLORD_FUZZ_SMOKE_RUNS} -runs=${OVERLORD_FUZZ_SMOKE_RUNS}
                                    "--out=${CMAKE_BINARY_DIR}" "-artifact_prefix=${CMAKE_BINARY_DIR}/")
    set_tests_properties(${target} PROPERTIES TIMEOUT 300)
    add_dependencies(overlord_fuzzers ${target})
    add_dependencies(overlord_tests ${target})
  endforeach()
endfunction()

# overlord_executable(ROOM NAME): the room's main.cc, once it is there.
function(overlord_executable room executable)
  overlord_room_name("${room}" name)
  file(GLOB main CONFIGURE_DEPENDS "${OVERLORD_SOURCE_ROOT}/${room}/main.cc")
  if(main)
    add_executable(${executable} ${main})
    target_link_libraries(${executable} PRIVATE overlord_${name} Threads::Threads)
  endif()
endfunction()
