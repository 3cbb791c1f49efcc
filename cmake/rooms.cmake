# The rooms of the house and what each may lean on. Includes and links go down only. This table is the
# law in one place: CMake links by it, the link tests prove it, tools/rooms.py reads it to judge includes.
if(OVERLORD_BUILD_TESTS)
  enable_testing()
endif()

overlord_library(base LIBS external::xxhash)
overlord_library(model DEPS base)
overlord_library(testing DEPS model base TEST_ONLY)
overlord_library(plan DEPS model base)
overlord_library(protocol DEPS model base LIBS external::zstd)
overlord_library(runtime DEPS base model LIBS Threads::Threads)
overlord_library(media DEPS model base runtime LIBS ${OVERLORD_CODEC_TARGETS})
overlord_library(columnar DEPS model base runtime
                 LIBS PyArrow::parquet PyArrow::compute PyArrow::arrow external::simdjson external::zstd external::zlib)
overlord_library(batch DEPS model base runtime)
overlord_library(store DEPS runtime base model LIBS external::curl_headers Threads::Threads ${CMAKE_DL_LIBS})
overlord_library(storage DEPS store runtime base model LIBS PyArrow::arrow)
overlord_library(transport DEPS protocol runtime base model LIBS PyArrow::flight PyArrow::arrow)
overlord_library(workers DEPS runtime base model)
overlord_library(roles/planner DEPS plan protocol runtime model base)
overlord_library(roles/loader DEPS plan protocol runtime model base columnar media)
overlord_library(roles/constructor DEPS protocol runtime model base batch media)
overlord_library(roles/client DEPS protocol runtime model base)
overlord_library(roles/keeper DEPS plan protocol runtime model base)
overlord_library(host DEPS roles/planner roles/loader roles/constructor roles/client columnar media batch runtime protocol
                           plan model base)
overlord_library(node DEPS host roles/keeper roles/planner roles/loader roles/constructor roles/client transport workers
                           storage store columnar media batch runtime protocol plan model base)
overlord_library(sim DEPS host roles/keeper roles/planner roles/loader roles/constructor roles/client testing columnar
                          runtime protocol plan model base TEST_ONLY)

overlord_executable(node overlord-node)
if(OVERLORD_BUILD_TESTS)
  overlord_check_headers()
endif()
