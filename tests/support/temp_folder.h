// A folder of real files for one test, empty at first and removed at its end.
//
//   const TempFolder folder;
//   OpenFileSource(folder.Path("model.index"), {});

#ifndef TENSORCASK_TESTS_SUPPORT_TEMP_FOLDER_H_
#define TENSORCASK_TESTS_SUPPORT_TEMP_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "gtest/gtest.h"

namespace tensorcask::testing {

class TempFolder {
 public:
  // In `parent`, which ends in a slash.
  explicit TempFolder(const std::string& parent = ::testing::TempDir()) : path_(parent + "tensorcask-XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr) << path_;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }

  // Makes or replaces a file, and gives its path.
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream out(Path(name), std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    EXPECT_TRUE(out.good()) << name;
    return Path(name);
  }

 private:
  std::string path_;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_TEMP_FOLDER_H_
