// Checkpoints for tests of the reader.

#ifndef TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_READER_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_READER_TESTING_H_

#include <string>

#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::testing {

inline constexpr int kFloat = 1;
inline constexpr char kData[] = "/m.data-00000-of-00001";

inline CheckpointWriterOptions WriteTo(FileSystem* files, int num_shards = 1) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.num_shards = num_shards;
  return options;
}

inline absl::StatusOr<CheckpointReader> OpenIn(FileSystem* files, const std::string& path = "/m",
                                               CheckpointReaderOptions options = {}) {
  options.read.file_system = files;
  return CheckpointReader::Open(path, options);
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_READER_TESTING_H_
