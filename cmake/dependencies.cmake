# The libraries that Tensorcask needs. A target that the parent project has defined is used as it is. The installed
# package reads this file, too, so it must not depend on the source tree.

include(CMakeFindDependencyMacro)
find_package(PkgConfig QUIET)

# Finds package `name` unless `target` exists.
macro(tensorcask_find name target)
  if(NOT TARGET ${target})
    find_package(${name} REQUIRED ${ARGN})
  endif()
endmacro()

# Makes Tensorcask::dependency_<name> from the first of the named targets that exists, else from pkg-config's module.
macro(tensorcask_find_c_library name module)
  if(NOT TARGET Tensorcask::dependency_${name})
    add_library(Tensorcask::dependency_${name} INTERFACE IMPORTED GLOBAL)
    set(_tensorcask_found "")
    foreach(_tensorcask_target ${ARGN})
      if(NOT _tensorcask_found AND TARGET ${_tensorcask_target})
        set(_tensorcask_found ${_tensorcask_target})
      endif()
    endforeach()
    if(NOT _tensorcask_found)
      if(NOT PkgConfig_FOUND)
        message(FATAL_ERROR "Tensorcask needs pkg-config to find ${module}")
      endif()
      pkg_check_modules(TENSORCASK_${name} REQUIRED QUIET IMPORTED_TARGET GLOBAL ${module})
      set(_tensorcask_found PkgConfig::TENSORCASK_${name})
    endif()
    target_link_libraries(Tensorcask::dependency_${name} INTERFACE ${_tensorcask_found})
  endif()
endmacro()

find_package(Threads REQUIRED)
tensorcask_find(absl absl::strings CONFIG)
tensorcask_find(Protobuf protobuf::libprotobuf)
# Inside libtensorcask.so, and in no header: a program that uses the installed library does not name them.
if(NOT TENSORCASK_LIBRARY_IS_SHARED)
  tensorcask_find(ZLIB ZLIB::ZLIB)
  tensorcask_find_c_library(zstd libzstd zstd::libzstd zstd::libzstd_shared zstd::libzstd_static libzstd_shared
    libzstd_static)
  tensorcask_find_c_library(xxhash libxxhash xxHash::xxhash xxhash)
  tensorcask_find_c_library(snappy snappy Snappy::snappy snappy)
endif()
# Of headers alone, so it is needed only where Tensorcask itself is built.
find_package(nlohmann_json QUIET CONFIG)
# Only for Tensorcask::eigen.
find_package(Eigen3 3.4 QUIET CONFIG)
