// Checkpoints in memory, and what is salvaged of them.

#ifndef TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_SALVAGE_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_SALVAGE_TESTING_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/salvage.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {

inline constexpr char kPrefix[] = "/m";
using Files = std::map<std::string, std::string>;  // by path

struct Salvaged {
  SalvageReport report;
  std::map<std::string, Tensor> tensors;
};

inline absl::StatusOr<Salvaged> Salvage(MemoryFileSystem* files) {
  Salvaged salvaged;
  CheckpointReaderOptions options;
  options.read.file_system = files;
  options.verify = Verify::kNever;  // is not listened to
  auto report = SalvageTensors(kPrefix, options, [&](absl::string_view name, const DecodedTensor& tensor) {
    absl::StatusOr<Tensor> dense = tensor.view.ToTensor();
    EXPECT_OK(dense.status());
    EXPECT_TRUE(salvaged.tensors.emplace(std::string(name), *std::move(dense)).second) << name << " twice";
    return absl::OkStatus();
  });
  if (!report.ok()) return report.status();
  salvaged.report = *std::move(report);
  return salvaged;
}

inline Files AllFiles(const MemoryFileSystem& memory) {
  Files files;
  for (const std::string& path : memory.Paths()) files[path] = BytesOf(memory, path);
  return files;
}

inline CheckpointWriterOptions WriteTo(MemoryFileSystem* files, int num_shards = 1) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.num_shards = num_shards;
  return options;
}

inline Files Own(int num_shards, uint64_t alignment, size_t index_block_bytes) {
  MemoryFileSystem files;
  CheckpointWriterOptions options = WriteTo(&files, num_shards);
  options.alignment = alignment;
  options.index_block_bytes = index_block_bytes;
  EXPECT_OK(Save(kPrefix, SampleTensors(num_shards), options));
  return AllFiles(files);
}

// Hundreds of tensors in small blocks, some sliced, some not row-major, with metadata.
inline Files Varied() {
  MemoryFileSystem files;
  CheckpointWriterOptions options = WriteTo(&files, 3);
  options.index_block_bytes = 512;
  auto writer = CheckpointWriter::Create(kPrefix, options);
  EXPECT_OK(writer.status());
  for (int i = 0; i < 100; ++i) {
    const Tensor tensor = Tensor::FromValues<int32_t>({{i, 1, 2}, {3, 4, 5}});
    CheckpointAddOptions add;
    add.shard = i % 3;
    add.layout = StoredLayout::kPreserve;
    if (i % 2 == 0) add.metadata.attributes["step"] = absl::StrCat(i);
    const TensorView view = TensorView(tensor);
    EXPECT_OK(writer->Add(absl::StrCat("layer", i, "/kernel"), i % 3 == 0 ? *view.Transpose(0, 1) : view, add));
    if (i % 5 == 0) {
      for (const char* slice : {"0,2:-", "2,2:0,3"}) {
        add.shard = (add.shard + 1) % 3;
        EXPECT_OK(
            writer->AddSlice(absl::StrCat("sliced", i), TensorShape({4, 3}), *TensorSlice::Parse(slice), tensor, add));
      }
    }
  }
  EXPECT_OK(writer->Finish());
  return AllFiles(files);
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_SALVAGE_TESTING_H_
