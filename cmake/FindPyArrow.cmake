# Arrow's C++ headers and libraries as shipped inside the pyarrow wheel of ${Python_EXECUTABLE}.
# The wheel has versioned library files only (libarrow.so.2500), so those are linked by full name: no
# symlink is made and nothing is written next to pyarrow.
#
# Targets: PyArrow::arrow, PyArrow::compute, PyArrow::parquet, PyArrow::flight
# Variables: PyArrow_VERSION, PyArrow_INCLUDE_DIR, PyArrow_LIBRARY_DIR

# The series has one home, pyproject.toml: what is built here is what the package asks for.
file(STRINGS "${PROJECT_SOURCE_DIR}/pyproject.toml" PyArrow_pins REGEX "^  \"pyarrow==[0-9]+\\.[0-9]+\\.\\*\",$")
string(REGEX REPLACE "^.*==([0-9]+)\\.([0-9]+)\\..*$" "\\1.\\2" PyArrow_SERIES "${PyArrow_pins}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS pyproject.toml)

if(NOT PyArrow_PROBED STREQUAL Python_EXECUTABLE)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
            "import pyarrow as a; print(a.__version__, a.get_include(), a.get_library_dirs()[0], sep=';')"
    OUTPUT_VARIABLE PyArrow_answer
    RESULT_VARIABLE PyArrow_result
    ERROR_VARIABLE PyArrow_error
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT PyArrow_result EQUAL 0)
    message(FATAL_ERROR "${Python_EXECUTABLE} cannot import pyarrow:\n${PyArrow_error}"
                        "Run `make setup`, or install it with: ${Python_EXECUTABLE} -m pip install 'pyarrow==${PyArrow_SERIES}.*'")
  endif()
  list(GET PyArrow_answer 0 PyArrow_answer_version)
  list(GET PyArrow_answer 1 PyArrow_answer_include)
  list(GET PyArrow_answer 2 PyArrow_answer_library)
  set(PyArrow_VERSION "${PyArrow_answer_version}" CACHE INTERNAL "")
  set(PyArrow_INCLUDE_DIR "${PyArrow_answer_include}" CACHE INTERNAL "")
  set(PyArrow_LIBRARY_DIR "${PyArrow_answer_library}" CACHE INTERNAL "")
  set(PyArrow_PROBED "${Python_EXECUTABLE}" CACHE INTERNAL "")
endif()

if(NOT PyArrow_VERSION MATCHES "^${PyArrow_SERIES}\\.")
  message(FATAL_ERROR "pyarrow ${PyArrow_SERIES}.* is needed (one soname per Arrow minor), "
                      "but ${Python_EXECUTABLE} has ${PyArrow_VERSION}")
endif()
# Arrow 25.0 is libarrow.so.2500.
string(REGEX REPLACE "^([0-9]+)\\.([0-9])$" "\\10\\2" PyArrow_SOVERSION "${PyArrow_SERIES}")
string(REPLACE "." "" PyArrow_SOVERSION "${PyArrow_SOVERSION}")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PyArrow REQUIRED_VARS PyArrow_INCLUDE_DIR PyArrow_LIBRARY_DIR
                                  VERSION_VAR PyArrow_VERSION)

function(pyarrow_import name library)
  if(TARGET PyArrow::${name})
    return()
  endif()
  set(file "${PyArrow_LIBRARY_DIR}/lib${library}.so.${PyArrow_SOVERSION}")
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "pyarrow ${PyArrow_VERSION} has no ${file}")
  endif()
  add_library(PyArrow::${name} SHARED IMPORTED)
  set_target_properties(PyArrow::${name} PROPERTIES IMPORTED_LOCATION "${file}"
                                                    IMPORTED_SONAME "lib${library}.so.${PyArrow_SOVERSION}")
  target_include_directories(PyArrow::${name} SYSTEM INTERFACE "${PyArrow_INCLUDE_DIR}")
  target_link_libraries(PyArrow::${name} INTERFACE ${ARGN})
endfunction()
pyarrow_import(arrow arrow)
pyarrow_import(compute arrow_compute PyArrow::arrow)
pyarrow_import(parquet parquet PyArrow::arrow)
pyarrow_import(flight arrow_flight PyArrow::arrow)
