// Files with checksums of memory that another process writes to meanwhile: what is written verifies.

#include <cstdint>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/memory_that_changes.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::ChangingMemory;

constexpr int64_t kNumElements = 300'000;

// Changes the memory after each write to a file.
class ChangingFileSystem final : public ForwardingFileSystem {
 public:
  ChangingFileSystem(FileSystem* behind, ChangingMemory* memory) : ForwardingFileSystem(behind), memory_(memory) {}
  IoResult WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) override {
    const IoResult result = ForwardingFileSystem::WriteAt(handle, offset, bytes);
    memory_->Change();
    return result;
  }

 private:
  ChangingMemory* const memory_;
};

TEST(ChangingMemory, SafetensorsFilesVerify) {
  for (const bool in_parts : {false, true}) {
    ChangingMemory memory(DType::kFloat32, kNumElements);
    MemoryFileSystem files;
    ChangingFileSystem changing(&files, &memory);
    const ChangingMemory::Thread thread(&memory);
    SafetensorsWriterOptions options;
    options.file_system = &changing;
    ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m.safetensors", options));
    const Tensor tensor = memory.tensor();
    ASSERT_OK(writer.Declare("w", tensor.dtype(), tensor.shape()));
    if (in_parts) {
      for (const char* const part : {"0,100000", "100000,200000"}) {
        const TensorSlice slice = *TensorSlice::Parse(part);
        ASSERT_OK(writer.AddSlice("w", slice, *TensorView(tensor).Slice(slice)));
      }
    } else {
      ASSERT_OK(writer.Add("w", tensor));
    }
    ASSERT_OK(writer.Finish());
    SafetensorsReaderOptions read;
    read.read.file_system = &files;
    ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open("m.safetensors", read));
    EXPECT_OK(reader.Read("w")) << "in parts: " << in_parts;
  }
}

TEST(ChangingMemory, NpzFilesVerify) {
  for (const int level : {0, 6}) {
    ChangingMemory memory(DType::kFloat32, kNumElements);
    MemoryFileSystem files;
    ChangingFileSystem changing(&files, &memory);
    const ChangingMemory::Thread thread(&memory);
    NpzWriterOptions options;
    options.file_system = &changing;
    options.deflate_level = level;
    ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create("m.npz", options));
    ASSERT_OK(writer.Add("w", memory.tensor()));
    ASSERT_OK(writer.Finish());
    NpyReaderOptions read;
    read.read.file_system = &files;
    ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("m.npz", read));
    EXPECT_OK(reader.Read("w")) << "level " << level;
  }
}

}  // namespace
}  // namespace tensorcask
