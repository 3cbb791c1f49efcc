# The Python extension overlord._core: python/src/*.cc, one file per bound header.
file(GLOB overlord_extension_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/src/*.cc")
if(NOT overlord_extension_sources)
  return()
endif()

execute_process(
  COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT
  RESULT_VARIABLE overlord_nanobind_result
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT overlord_nanobind_result EQUAL 0)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no nanobind. Run `make setup`, or install it with: "
                      "${Python_EXECUTABLE} -m pip install 'nanobind>=3.1,<3.2'")
endif()
find_package(nanobind CONFIG REQUIRED)

# overlord_extension(NAME FOLDER SOURCES...): a module for Python. Stable ABI of Python 3.10: one file for every Python
# from there on. nanobind offers that where the part of it that is compiled for one Python is a package of its own,
# nanobind-backend (docs/decisions/0049). Only the module's entry point leaves the file, so that no symbol of ours can
# meet a neighbour's.
function(overlord_extension name folder)
  nanobind_add_module(${name} BACKEND_MODULE nanobind_backend STABLE_ABI_VERSION 3.10 NOMINSIZE ${ARGN})
  set(exports "${PROJECT_SOURCE_DIR}/cmake/extension_exports.map")
  target_link_options(${name} PRIVATE "-Wl,--version-script=${exports}")
  overlord_in_batches(${name} 8)
  if(OVERLORD_UNITY)
    target_compile_options(${name} PRIVATE -Wno-subobject-linkage)
  endif()
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${folder}" LINK_DEPENDS "${exports}")
endfunction()

overlord_extension(_core "${OVERLORD_EXTENSION_DIR}" ${overlord_extension_sources})
target_link_libraries(_core PRIVATE overlord_node overlord_plan overlord_columnar overlord_media)
target_compile_definitions(_core PRIVATE OVERLORD_VERSION="${PROJECT_VERSION}"
                                         OVERLORD_BUILD_ARROW_VERSION="${PyArrow_VERSION}")
set_target_properties(_core PROPERTIES INSTALL_RPATH "$ORIGIN/../pyarrow")

# Everything that users run: what the wheel ships and `make run` builds.
add_custom_target(product DEPENDS _core)
# A module of an older build, named after one Python, would be imported instead.
file(GLOB overlord_older_modules "${OVERLORD_EXTENSION_DIR}/_core.cpython-*.so")
if(overlord_older_modules)
  file(REMOVE ${overlord_older_modules})
endif()

install(TARGETS _core LIBRARY DESTINATION overlord COMPONENT python)

# The node process is a program beside the module.
if(TARGET overlord-node)
  set_target_properties(
    overlord-node
    PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${OVERLORD_EXTENSION_DIR}"
               INSTALL_RPATH "$ORIGIN/../pyarrow")
  add_dependencies(product overlord-node)
  install(TARGETS overlord-node RUNTIME DESTINATION overlord COMPONENT python)
endif()
