# cmake --install: libraries, headers, the program with its man page and completions, the CMake package and tensorcask.pc.
if(NOT TENSORCASK_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY tensorcask_rooms)
get_property(headers GLOBAL PROPERTY tensorcask_headers)
if(BUILD_SHARED_LIBS)
  list(APPEND rooms tensorcask)
endif()
install(TARGETS ${rooms} EXPORT Tensorcask
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
list(REMOVE_DUPLICATES headers)
foreach(header ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tensorcask/${folder})
endforeach()
install(DIRECTORY "${TENSORCASK_GENERATED_DIR}/tensorcask/proto" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tensorcask
  FILES_MATCHING PATTERN "*.pb.h")
if(TENSORCASK_TOOL)
  install(TARGETS tools_tensorcask RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(TARGET tools_tensorcask-mpi)
    install(TARGETS tools_tensorcask-mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
  install(FILES tools/manual/tensorcask.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES tools/manual/tensorcask.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME tensorcask)
  install(FILES tools/manual/_tensorcask DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES tools/manual/tensorcask.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tensorcask)

set(TENSORCASK_HAS_MPI OFF)
if(TARGET Tensorcask::mpi)
  set(TENSORCASK_HAS_MPI ON)
endif()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tensorcask)
install(EXPORT Tensorcask NAMESPACE Tensorcask:: FILE TensorcaskTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/TensorcaskConfig.cmake.in "${PROJECT_BINARY_DIR}/package/TensorcaskConfig.cmake"
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/TensorcaskConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/TensorcaskConfig.cmake"
  "${PROJECT_BINARY_DIR}/package/TensorcaskConfigVersion.cmake" cmake/dependencies.cmake DESTINATION ${package_dir})

# pkg-config: all rooms, in the order in which a static link needs them. The fixtures of tests and the communicator of
# MPI have modules of their own.
if(BUILD_SHARED_LIBS)
  set(TENSORCASK_PC_LIBS "-ltensorcask ")
  set(TENSORCASK_PC_PRIVATE "")  # pkg-config would look for these modules, which a program does not need
else()
  # Not libcurl.pc: --static would ask for the static libraries of all that curl uses, which few systems have.
  set(TENSORCASK_PC_PRIVATE "Requires.private: expat libzstd libxxhash re2 snappy zlib\nLibs.private: -lcurl\n")
  set(TENSORCASK_PC_LIBS "")
  foreach(room ${rooms})
    get_target_property(kind ${room} TYPE)
    if(kind STREQUAL STATIC_LIBRARY AND NOT room MATCHES "^tensorcask_(fixture|mpi)$")
      string(PREPEND TENSORCASK_PC_LIBS "-l${room} ")
    endif()
  endforeach()
endif()
configure_file(cmake/tensorcask.pc.in "${PROJECT_BINARY_DIR}/package/tensorcask.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/package/tensorcask.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
foreach(module fixture mpi)
  if(TARGET Tensorcask::${module})
    configure_file(cmake/tensorcask-${module}.pc.in "${PROJECT_BINARY_DIR}/package/tensorcask-${module}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/package/tensorcask-${module}.pc"
      DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  endif()
endforeach()
