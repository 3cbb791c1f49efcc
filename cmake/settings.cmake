# Compiler settings for every target: language, warnings, sanitizers, compiler cache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# A fused multiply-add rounds differently from a multiply and an add; plans must be equal on every machine.
# g++ 12 reports members of std::variant and std::optional as maybe-uninitialized where they are not.
add_compile_options(-ffp-contract=off -Wall -Wextra "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")
# The inner loops of assembly, pixels and sounds want the vectoriser's full effort. The bytes stay the same: integers,
# copies, and floats whose order of operations the compiler may not change.
set_source_files_properties(src/overlord/model/widen.cc src/overlord/batch/assemble.cc
                            src/overlord/columnar/token_checks.cc src/overlord/media/image/resize_kernels.cc
                            src/overlord/media/image/codecs/colour.cc src/overlord/media/image/patchify.cc
                            src/overlord/media/image/codecs/jpeg_shrink.cc src/overlord/media/audio/fft_400.cc
                            src/overlord/media/audio/log_mel.cc
                            src/overlord/media/audio/resample.cc src/overlord/media/audio/audio_decode.cc
                            PROPERTIES COMPILE_OPTIONS -O3)
# A sixth of the time that g++ takes goes into collecting its own garbage; with a quarter of a gigabyte more it need not.
add_compile_options("$<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000;--param=ggc-min-expand=300>")
if(OVERLORD_WERROR)
  add_compile_options(-Werror)
endif()
add_link_options(-Wl,--as-needed)

if(OVERLORD_SANITIZE STREQUAL "address")
  # No vptr check: it wants the type information of Arrow classes whose libraries hide it.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  # Clang checks products of 128 bits by a function of its own runtime, which GCC's does not have.
  add_link_options("$<$<CXX_COMPILER_ID:Clang>:--rtlib=compiler-rt;--unwindlib=libgcc>")
elseif(OVERLORD_SANITIZE STREQUAL "thread")
  # GCC's -Wtsan objects to atomic fences inside third-party headers, which we cannot change.
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
  add_link_options(-fsanitize=thread)
elseif(OVERLORD_SANITIZE)
  message(FATAL_ERROR "OVERLORD_SANITIZE must be empty, address or thread, not ${OVERLORD_SANITIZE}")
endif()

# Lets the small fuzzer of cmake/fuzz_main.cc see which code an input reaches; clang brings its own way.
if(OVERLORD_FUZZ_COVERAGE AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-fsanitize-coverage=trace-pc)
endif()

find_program(OVERLORD_CCACHE ccache)
if(OVERLORD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${OVERLORD_CCACHE}")
endif()
