# The libraries that Tensorcask needs. A target that the parent project has defined is used as it is. The installed
# package reads this file, too, so it must not depend on the source tree.

find_package(PkgConfig QUIET)
# What was not found, in words. Who includes this file decides what that means.
set(TENSORCASK_MISSING "")

# Finds package `name` unless `target` exists.
macro(tensorcask_find name target)
  if(NOT TARGET ${target})
    find_package(${name} QUIET ${ARGN})
    if(NOT TARGET ${target})
      list(APPEND TENSORCASK_MISSING "${name} (find_package finds none)")
    endif()
  endif()
endmacro()

# Makes Tensorcask::dependency_<name> from the first of the named targets that exists, else from pkg-config's module.
macro(tensorcask_find_c_library name module)
  if(NOT TARGET Tensorcask::dependency_${name})
    set(_tensorcask_found "")
    foreach(_tensorcask_target ${ARGN})
      if(NOT _tensorcask_found AND TARGET ${_tensorcask_target})
        set(_tensorcask_found ${_tensorcask_target})
      endif()
    endforeach()
    if(NOT _tensorcask_found AND PkgConfig_FOUND)
      pkg_check_modules(TENSORCASK_${name} QUIET IMPORTED_TARGET GLOBAL ${module})
      if(TENSORCASK_${name}_FOUND)
        set(_tensorcask_found PkgConfig::TENSORCASK_${name})
      endif()
    endif()
    if(_tensorcask_found)
      add_library(Tensorcask::dependency_${name} INTERFACE IMPORTED GLOBAL)
      target_link_libraries(Tensorcask::dependency_${name} INTERFACE ${_tensorcask_found})
    elseif(PkgConfig_FOUND)
      list(APPEND TENSORCASK_MISSING "${name} (pkg-config finds no ${module}.pc)")
    else()
      list(APPEND TENSORCASK_MISSING "${name} (without pkg-config, which finds it)")
    endif()
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
  tensorcask_find_c_library(re2 re2 re2::re2 re2)
  tensorcask_find_c_library(snappy snappy Snappy::snappy snappy)
  tensorcask_find_c_library(curl libcurl CURL::libcurl)
  tensorcask_find_c_library(expat expat expat::expat)
endif()
# Only for Tensorcask::eigen. A package of version 5 does not answer a request for 3.4.
foreach(_tensorcask_version 3.4 5)
  if(NOT TARGET Eigen3::Eigen)
    find_package(Eigen3 ${_tensorcask_version} QUIET CONFIG)
  endif()
endforeach()
# Only for Tensorcask::rpc, which is made where the build asks for it.
if(TENSORCASK_GRPC AND NOT TARGET gRPC::grpc++)
  find_package(gRPC QUIET CONFIG)
  if(NOT TARGET gRPC::grpc++ OR NOT TARGET gRPC::grpc++_reflection OR NOT TARGET gRPC::grpc_cpp_plugin)
    list(APPEND TENSORCASK_MISSING "gRPC (find_package finds no grpc++, grpc++_reflection and grpc_cpp_plugin)")
  endif()
endif()
# Only for Tensorcask::fixture.
if(NOT TARGET GTest::gmock)
  find_package(GTest QUIET)
endif()
# Only for Tensorcask::mpi. FindMPI makes its target before it knows whether MPI is there.
if(TENSORCASK_MPI AND NOT TARGET MPI::MPI_CXX)
  set(MPI_CXX_SKIP_MPICXX ON)  # its own classes for C++
  find_package(MPI QUIET COMPONENTS CXX)
  set(TENSORCASK_MPI ${MPI_CXX_FOUND})
endif()
