# cpack: a Debian package of what is installed: the program, the library, headers, man page and completions. tools/dev
# package makes and checks it.
if(NOT TENSORCASK_INSTALL OR NOT TENSORCASK_IS_MAIN_PROJECT)
  return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tensorcask)
set(CPACK_PACKAGE_VENDOR "The Tensorcask authors")
if(NOT CPACK_PACKAGE_CONTACT)
  set(CPACK_PACKAGE_CONTACT "${CPACK_PACKAGE_VENDOR}")  # a distributor gives a name and an address
endif()
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "library and program that store and ship tensors")
set(CPACK_PACKAGE_DESCRIPTION "Tensorcask reads and writes TensorFlow checkpoints, safetensors, npy and npz files and
messages with tensors. The package has the program tensorcask, and the C++17 library with its headers.")
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_STRIP_FILES ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
# Depends: the packages of the shared libraries that the program and libtensorcask.so load. dpkg-shlibdeps finds them.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# What a program needs that is compiled against the headers.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libabsl-dev, libprotobuf-dev, pkg-config")
if(NOT BUILD_SHARED_LIBS)
  string(APPEND CPACK_DEBIAN_PACKAGE_RECOMMENDS ", libcurl4-openssl-dev, libexpat1-dev, libre2-dev, libsnappy-dev, libxxhash-dev, libzstd-dev, zlib1g-dev")
endif()
include(CPack)
