// Helpers that the tests of checkpoints share.

#ifndef TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_CHECKPOINT_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_CHECKPOINT_TESTING_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {

// A tensor to save, and where.
struct CheckpointNamedTensor {
  std::string name;
  Tensor tensor;
  int shard = 0;
};

// The first error of Create, Add and Finish.
absl::Status Save(const std::string& prefix, const std::vector<CheckpointNamedTensor>& tensors,
                  const CheckpointWriterOptions& options);

// The bytes of a file in `files`; fails the test if the file does not exist.
std::string BytesOf(const MemoryFileSystem& files, const std::string& path);

// Dtype, shape and every bit.
::testing::AssertionResult SameTensor(const Tensor& a, const Tensor& b);

// A few tensors of different kinds: many dtypes, strings, empty ones, scalars. Those of odd numbers are for shard 1.
std::vector<CheckpointNamedTensor> SampleTensors(int num_shards);

// An index that holds these keys and values, whatever they are, with correct checksums.
std::string IndexOf(const std::map<std::string, std::string>& content);
// The same of one header (num_shards, producer 1) and these entries.
std::string IndexOf(int num_shards, const std::map<std::string, BundleEntryProto>& entries);

// An entry of these fields, its checksum that of `bytes`, which it says are stored.
BundleEntryProto EntryOf(int dtype, const std::vector<int64_t>& dims, const std::string& bytes, int64_t offset = 0);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_CHECKPOINT_TESTING_H_
