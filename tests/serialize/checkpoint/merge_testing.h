// Checkpoints for tests of merging, in any file system.

#ifndef TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_MERGE_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_MERGE_TESTING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {

inline CheckpointMergeOptions On(FileSystem* files) {
  CheckpointMergeOptions options;
  options.file_system = files;
  return options;
}

inline absl::StatusOr<CheckpointReader> OpenIn(FileSystem* files, const std::string& prefix) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  return CheckpointReader::Open(prefix, options);
}

inline void SaveIn(FileSystem* files, const std::string& prefix, const std::vector<CheckpointNamedTensor>& tensors,
                   int num_shards = 1) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.num_shards = num_shards;
  ASSERT_OK(Save(prefix, tensors, options));
}

// Rows [start, start + rows) of a float32 tensor of `all` rows, of the values start, start + 1 ...
inline absl::Status SaveRows(FileSystem* files, const std::string& prefix, int64_t all, int64_t start, int64_t rows,
                             DType dtype = DType::kFloat32) {
  CheckpointWriterOptions options;
  options.file_system = files;
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Create(prefix, options);
  if (!writer.ok()) return writer.status();
  Tensor tensor = *Tensor::Zeros(dtype, TensorShape::Create({rows}).value());
  if (dtype == DType::kFloat32) {
    for (int64_t i = 0; i < rows; ++i) tensor.mutable_data<float>()[i] = static_cast<float>(start + i);
  }
  absl::Status status = writer->AddSlice("w", TensorShape::Create({all}).value(),
                                         *TensorSlice::Parse(absl::StrCat(start, ",", rows)), tensor);
  return status.ok() ? writer->Finish() : status;
}

// All keys and values of an index.
inline std::map<std::string, std::string> ContentOf(FileSystem* files, const std::string& prefix) {
  std::map<std::string, std::string> content;
  ReadOptions read;
  read.file_system = files;
  absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(prefix + ".index", read);
  EXPECT_OK(file);
  if (!file.ok()) return content;
  const auto table = checkpoint::TableReader::Open(*std::move(file), {});
  EXPECT_OK(table);
  if (!table.ok()) return content;
  EXPECT_OK((*table)->ForEach([&](absl::string_view key, absl::string_view value) {
    content[std::string(key)] = std::string(value);
    return absl::OkStatus();
  }));
  return content;
}

inline BundleHeaderProto HeaderOf(FileSystem* files, const std::string& prefix) {
  BundleHeaderProto header;
  EXPECT_TRUE(header.ParseFromString(ContentOf(files, prefix)[""]));
  return header;
}

inline absl::Status Merge(FileSystem* files, const std::vector<std::string>& sources) {
  return MergeCheckpoints(sources, "/m", On(files)).status();
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_MERGE_TESTING_H_
