// The folder of real files that other programs wrote.
//
//   const std::string folder = TestDataFolder("tensorflow");
//   if (folder.empty()) GTEST_SKIP() << "no test data";
//
// Named by TENSORCASK_TEST_DATA in the environment, else ../shared/data beside the current folder.

#ifndef TENSORCASK_TESTS_SUPPORT_TEST_DATA_H_
#define TENSORCASK_TESTS_SUPPORT_TEST_DATA_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace tensorcask::testing {

// The path of `name` below the data folder; empty if it is not there.
inline std::string TestDataFolder(const std::string& name) {
  const char* root = std::getenv("TENSORCASK_TEST_DATA");
  const std::filesystem::path path = std::filesystem::path(root != nullptr ? root : "../shared/data") / name;
  std::error_code error;
  return std::filesystem::exists(path, error) ? path.string() : std::string();
}

// All bytes of the file at `path`; fails the test if it cannot be read.
inline std::string ReadFileOrFail(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_TEST_DATA_H_
