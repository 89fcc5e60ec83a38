// Shared libraries that a test opens, which the build makes beside it.
//
//   void* const handle = dlopen(TestModule("tests/tensor/memory/libfake_cuda.so").c_str(), RTLD_NOW);

#ifndef TENSORCASK_TESTS_SUPPORT_TEST_MODULE_H_
#define TENSORCASK_TESTS_SUPPORT_TEST_MODULE_H_

#include <cstdlib>
#include <string>

namespace tensorcask::testing {

// `path` is that of the library below the root. Bazel has it there in the current folder; CMake names another folder.
inline std::string TestModule(const std::string& path) {
  const char* const folder = std::getenv("TENSORCASK_TEST_MODULES");
  return folder == nullptr ? path : std::string(folder) + "/" + path;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_TEST_MODULE_H_
