// Errors about memory that is missing stay marked as errors of this process on their way to the caller.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "snappy.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/forge.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace {

size_t fail_from = SIZE_MAX;  // allocations of `fail_from` bytes and more fail

}  // namespace

// The function of the C library from which CpuAllocator takes its memory.
extern "C" int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  if (bytes >= fail_from) return ENOMEM;
  *out = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  return *out == nullptr ? ENOMEM : 0;
}

namespace tensorcask {
namespace {

using ::tensorcask::testing::ForgeBlock;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TableForge;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

class FailFrom {
 public:
  explicit FailFrom(size_t bytes) { fail_from = bytes; }
  ~FailFrom() { fail_from = SIZE_MAX; }
  FailFrom(const FailFrom&) = delete;
  FailFrom& operator=(const FailFrom&) = delete;
};

// Without the mark, a search for damage reports the block as past a limit, and salvage loses its entries.
TEST(NoMemory, ForADecompressedBlockIsAnErrorOfTheProcess) {
  const std::string content = ForgeBlock({{0, "a", std::string(100'000, 'x')}});
  std::string compressed;
  snappy::Compress(content.data(), content.size(), &compressed);
  ASSERT_LT(compressed.size(), 50'000u);
  TableForge forge;
  const checkpoint::BlockHandle block = forge.Block(compressed, /*type=*/1);
  const std::string file = forge.Finish({{"zz", block}});
  ASSERT_OK_AND_ASSIGN(const auto table,
                       checkpoint::TableReader::Open(MakeMemorySource("t.index", file), DecodeLimits()));
  absl::Status status;
  {
    const FailFrom failing(50'000);
    status = table->Find("a").status();
  }
  EXPECT_THAT(status, StatusIs(Code::kResourceExhausted,
                               AllOf(HasSubstr("t.index: block at 0, "), HasSubstr(" bytes: no memory for "))));
  EXPECT_TRUE(IsResourceFailure(status)) << status;
  EXPECT_OK(table->Find("a"));  // nothing is wrong with the block
}

TEST(NoMemory, ForTheElementsOfAViewIsAnErrorOfTheProcess) {
  MemoryFileSystem files;
  CheckpointWriterOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, Tensor::Zeros(DType::kFloat32, TensorShape({100, 300})));
  ASSERT_OK_AND_ASSIGN(const TensorView transposed, TensorView(tensor).Transpose(0, 1));
  absl::Status status;
  {
    const FailFrom failing(4'000);  // the writer needs memory for the elements in row-major order
    status = writer.Add("w", transposed);
  }
  EXPECT_THAT(status, StatusIs(Code::kResourceExhausted, HasSubstr("/m: tensor \"w\": no memory for ")));
  EXPECT_TRUE(IsResourceFailure(status)) << status;
}

}  // namespace
}  // namespace tensorcask
