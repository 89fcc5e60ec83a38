# The tests and examples: scripts/cmake_targets.py lists them from the BUILD files whenever CMake configures.
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  message(FATAL_ERROR "The tests need Python 3. -DTENSORCASK_TESTS=OFF leaves them out.")
endif()
file(GLOB_RECURSE build_files "${PROJECT_SOURCE_DIR}/examples/BUILD.bazel" "${PROJECT_SOURCE_DIR}/tests/BUILD.bazel")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${build_files})
execute_process(
  COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/scripts/cmake_targets.py" --tests
    "${PROJECT_BINARY_DIR}/tests.cmake"
  COMMAND_ERROR_IS_FATAL ANY)
include("${PROJECT_BINARY_DIR}/tests.cmake")
