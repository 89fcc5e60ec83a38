# The tree that this folder lies in. A registry names an archive of a release instead: vcpkg_from_github.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES tool TENSORCASK_TOOL)
# The doors eigen and fixture exist if what they need is found. What a feature did not ask for is not looked for.
foreach(feature_and_package "eigen Eigen3" "fixture GTest")
  string(REPLACE " " ";" feature_and_package "${feature_and_package}")
  list(GET feature_and_package 0 feature)
  list(GET feature_and_package 1 package)
  if(NOT feature IN_LIST FEATURES)
    list(APPEND options "-DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON")
  endif()
endforeach()

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS ${options} -DTENSORCASK_MPI=OFF
  -DTENSORCASK_TESTS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME Tensorcask CONFIG_PATH lib/cmake/Tensorcask)
vcpkg_fixup_pkgconfig()
if("tool" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES tensorcask AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/NOTICE")
