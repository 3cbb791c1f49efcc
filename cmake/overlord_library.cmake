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

# overlord_together(TARGET SOURCES [UNIT]): the files of one folder, or all of them, are compiled as one: most of the
# time goes into headers that all of them read. Names in anonymous namespaces are therefore one per unit. The sanitized
# builds compile every file alone.
function(overlord_together target sources)
  if(NOT OVERLORD_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Private classes may have members of anonymous namespaces: nobody else sees either.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  foreach(source IN LISTS sources)
    get_filename_component(folder "${source}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" group)
    string(REGEX REPLACE "^.*src_overlord_" "" group "${group}")
    if(ARGC GREATER 2)
      set(group "${ARGV2}")
    endif()
    set_property(SOURCE "${source}" PROPERTY UNITY_GROUP "${group}")
  endforeach()
endfunction()

# The same for files that no folder groups: so many of them at a time, 0 for all.
function(overlord_in_batches target size)
  if(OVERLORD_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  endif()
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

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${OVERLORD_SOURCE_ROOT}/${room}/*.cc")
  list(FILTER sources EXCLUDE REGEX "(_test|_benchmark|_fuzz|/main)\\.cc$")
  set(links "${arg_LIBS}")
  foreach(dep IN LISTS arg_DEPS)
    overlord_room_name("${dep}" dep_name)
    list(APPEND links overlord_${dep_name})
  endforeach()

  if(sources)
    add_library(${target} STATIC ${sources})
    overlord_together(${target} "${sources}")
    target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(${target} PUBLIC ${links})
    if(arg_TEST_ONLY)  # a clean run of all tests has to end soon; what ships has the same options in every build
      target_compile_options(${target} PRIVATE -O1)
    endif()
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

# Takes out of a list of files those that say "// Needs codecs: A B" and lack one of them: they write their inputs
# with its library. `<files>_left_out` gets "stem: what is missing" for each.
function(overlord_leave_out files)
  set(kept "")
  set(left_out "")
  foreach(file IN LISTS ${files})
    file(STRINGS "${file}" needs REGEX "^// Needs codecs: " LIMIT_COUNT 1)
    string(REGEX REPLACE "^// Needs codecs: " "" needs "${needs}")
    string(REPLACE " " ";" needs "${needs}")
    list(REMOVE_ITEM needs ${OVERLORD_CODECS_PRESENT} "")
    if(needs)
      get_filename_component(stem "${file}" NAME_WE)
      list(JOIN needs ", " needs)
      list(APPEND left_out "${stem}: ${needs}")
    else()
      list(APPEND kept "${file}")
    endif()
  endforeach()
  set(${files} "${kept}" PARENT_SCOPE)
  set(${files}_left_out "${left_out}" PARENT_SCOPE)
endfunction()

# A test per file that was left out, which is skipped and says why.
function(overlord_skipped_tests name left_out output)
  set(text "// Written by CMake: tests that this build leaves out.\n#include <gtest/gtest.h>\n")
  foreach(one IN LISTS left_out)
    string(REGEX MATCH "^[^:]*" stem "${one}")
    string(REGEX REPLACE "^[^:]*: " "" missing "${one}")
    string(APPEND text "TEST(LeftOut, ${stem}) { GTEST_SKIP() << \"this build was configured without ${missing}\"; }\n")
  endforeach()
  set(file "${PROJECT_BINARY_DIR}/left_out/${name}_test.cc")
  file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
  set(${output} "${file}" PARENT_SCOPE)
endfunction()

# One GoogleTest binary, overlord_<name>_test, out of the room's x_test.cc files.
function(overlord_tests room)
  overlord_room_name("${room}" name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${OVERLORD_SOURCE_ROOT}/${room}/*_test.cc")
  overlord_leave_out(sources)
  if(sources_left_out)
    overlord_skipped_tests(${name} "${sources_left_out}" skipped)
    list(APPEND sources "${skipped}")
  endif()
  if(sources)
    overlord_gtest(overlord_${name}_test "${sources}" overlord_${name})
    if(room MATCHES "^(plan|media)$")
      overlord_together(overlord_${name}_test "${sources}")
    else()
      overlord_together(overlord_${name}_test "${sources}" ${name})
    endif()
    # Rooms above `testing` may draw their inputs from it.
    if(NOT room MATCHES "^(base|model|testing)$")
      target_link_libraries(overlord_${name}_test PRIVATE overlord_testing)
    endif()
  endif()
endfunction()

# GoogleTest's header takes longer to read than most tests. All tests share one precompiled copy, but not
# where a compiler cache would no longer recognise them.
function(overlord_share_gtest target)
  if(OVERLORD_CCACHE)
    return()
  endif()
  # Out of a precompiled header GCC 12 warns about the standard library's own copies.
  target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict)
  get_property(first GLOBAL PROPERTY overlord_first_gtest)
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE <gtest/gtest.h>)
    set_property(GLOBAL PROPERTY overlord_first_gtest ${target})
  endif()
endfunction()

# A GoogleTest binary registered with ctest as one test.
function(overlord_gtest target sources)
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE ${ARGN} external::gtest_main external::gtest Threads::Threads)
  # Tests are half of what a clean build compiles, and most wait for the code under test, not for their own: with -Og
  # the compiler writes a fifth of the code that it does with -O0, and is done sooner. The simulated worlds are code of
  # tests themselves.
  if(target STREQUAL "overlord_simulation_test")
    target_compile_options(${target} PRIVATE -O1)
  else()
    target_compile_options(${target} PRIVATE -Og)
    overlord_share_gtest(${target})
  endif()
  add_test(NAME ${target} COMMAND ${target} --gtest_brief=1)
  set_tests_properties(${target} PROPERTIES TIMEOUT $<IF:$<BOOL:${OVERLORD_SANITIZE}>,3600,600>)
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

# A header with a twin x.cc is included first by that file (tools/rooms.py holds that rule), which the sanitized builds
# compile alone. The headers without a twin get a generated file each: target check_headers compiles them one by one in
# those builds, elsewhere many at a time, since what they include is the same.
function(overlord_header_check room)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${OVERLORD_SOURCE_ROOT}/${room}/*.h")
  overlord_leave_out(headers)
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "\\.h$" ".cc" twin "${header}")
    if(NOT EXISTS "${twin}")
      file(RELATIVE_PATH relative "${PROJECT_SOURCE_DIR}/src" "${header}")
      string(REGEX REPLACE "\\.h$" ".cc" generated "${PROJECT_BINARY_DIR}/headers/${relative}")
      file(CONFIGURE OUTPUT "${generated}" CONTENT "#include \"${relative}\"\n#include \"${relative}\"\n" @ONLY)
      set_property(GLOBAL APPEND PROPERTY overlord_headers "${generated}")
    endif()
  endforeach()
  overlord_room_name("${room}" name)
  set_property(GLOBAL APPEND PROPERTY overlord_header_rooms overlord_${name})
endfunction()

function(overlord_check_headers)
  get_property(generated GLOBAL PROPERTY overlord_headers)
  get_property(rooms GLOBAL PROPERTY overlord_header_rooms)
  add_library(overlord_headers OBJECT EXCLUDE_FROM_ALL ${generated})
  overlord_in_batches(overlord_headers 0)
  target_link_libraries(overlord_headers PRIVATE ${rooms})
  target_compile_options(overlord_headers PRIVATE -O0)
  add_dependencies(check_headers overlord_headers)
endfunction()

# One Google Benchmark binary per x_benchmark.cc.
function(overlord_benchmarks room)
  overlord_room_name("${room}" name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${OVERLORD_SOURCE_ROOT}/${room}/*_benchmark.cc")
  foreach(source IN LISTS sources)
    get_filename_component(stem "${source}" NAME_WE)
    set(target overlord_${name}_${stem})
    add_executable(${target} "${source}" "${PROJECT_SOURCE_DIR}/cmake/benchmark_main.cc")
    target_link_libraries(${target} PRIVATE overlord_${name} external::benchmark Threads::Threads)
    add_dependencies(overlord_benchmarks ${target})
  endforeach()
endfunction()

# The small fuzzer, of which every target has a main().
if(OVERLORD_FUZZERS AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_library(overlord_fuzz_main OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/fuzz_main.cc")
  target_compile_options(overlord_fuzz_main PRIVATE -O1)
endif()

# One fuzz target per x_fuzz.cc: a libFuzzer binary where the compiler is clang, else one with the small
# fuzzer of cmake/fuzz_main.cc. Each runs for a moment among the tests; `make fuzz` runs them for long.
function(overlord_fuzzers room)
  overlord_room_name("${room}" name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${OVERLORD_SOURCE_ROOT}/${room}/*_fuzz.cc")
  overlord_leave_out(sources)
  foreach(source IN LISTS sources)
    get_filename_component(stem "${source}" NAME_WE)
    set(target overlord_${name}_${stem})
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      add_executable(${target} "${source}")
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
      target_compile_options(overlord_${name} PRIVATE -fsanitize=fuzzer-no-link)
    else()
      add_executable(${target} "${source}" $<TARGET_OBJECTS:overlord_fuzz_main>)
    endif()
    target_compile_options(${target} PRIVATE -Og)
    target_link_libraries(${target} PRIVATE overlord_${name} overlord_testing external::gtest Threads::Threads)
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      overlord_share_gtest(${target})
    endif()
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
