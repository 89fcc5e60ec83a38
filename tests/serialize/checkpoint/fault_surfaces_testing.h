// What the tests of failing file systems share.

#ifndef TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_FAULT_SURFACES_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_FAULT_SURFACES_TESTING_H_

#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/tests/support/faulty_file_system.h"

namespace tensorcask::testing {

inline constexpr int kErrors[] = {EIO, ENOSPC, EDQUOT, EINTR, EAGAIN, EMFILE, EACCES, ESTALE};
inline constexpr auto kOnce = FaultyFileSystem::kOnce;
inline constexpr auto kForEver = FaultyFileSystem::kForEver;

inline constexpr char kFolder[] = "/m";
inline constexpr char kTarget[] = "/m/ckpt";
inline constexpr int64_t kOld = 1;
inline constexpr int64_t kNew = 2;

inline std::string Where(int64_t n, int error, FaultyFileSystem::Duration duration) {
  return absl::StrCat("errno ", error, " at ", n, duration == kForEver ? " for ever" : "");
}

// The answer to a failed operation of that errno.
inline void ExpectSays(const absl::Status& status, int error, const FaultyFileSystem& files) {
  EXPECT_EQ(status.code(), absl::ErrnoToStatusCode(error)) << status << "\n" << files.LogText();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(kFolder)) << files.LogText();
}

inline CheckpointWriterOptions WriterOptions(FileSystem* files) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.num_shards = 2;
  return options;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_FAULT_SURFACES_TESTING_H_
