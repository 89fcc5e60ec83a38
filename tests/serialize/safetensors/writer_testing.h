// Saving tensors to files in memory.

#ifndef TENSORCASK_TESTS_SERIALIZE_SAFETENSORS_WRITER_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_SAFETENSORS_WRITER_TESTING_H_

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {

using Tensors = std::vector<std::pair<std::string, Tensor>>;

inline absl::Status Save(const std::string& path, const Tensors& tensors, const SafetensorsWriterOptions& options) {
  absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(path, options);
  if (!writer.ok()) return writer.status();
  for (const auto& [name, tensor] : tensors) {
    absl::Status added = writer->Add(name, tensor);
    if (!added.ok()) return added;
  }
  return writer->Finish();
}

// The bytes of a file with these tensors; empty on an error.
inline std::string SavedBytes(const Tensors& tensors, SafetensorsWriterOptions options = {}) {
  MemoryFileSystem files;
  options.file_system = &files;
  EXPECT_OK(Save("m", tensors, options));
  EXPECT_EQ(files.open_handles(), 0u);
  EXPECT_THAT(files.Paths(), ::testing::ElementsAre("m"));
  const auto bytes = files.Find("m");
  return bytes != nullptr ? *bytes : "";
}

inline SafetensorsWriterOptions AsReference() {
  SafetensorsWriterOptions options;
  options.alignment = 8;
  options.checksums = false;
  return options;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_SAFETENSORS_WRITER_TESTING_H_
