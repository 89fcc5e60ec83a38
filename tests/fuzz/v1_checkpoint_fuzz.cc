// A V1 checkpoint: what its list names is read whole or in part, or refused, and verifying it tells which.
//
// Is to reach what input can reach of these files:
//   serialize/checkpoint/read/v1_*

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/read/checkpoint_reader_impl.h"
#include "tensorcask/serialize/checkpoint/read/reader_types.h"
#include "tensorcask/serialize/checkpoint/read/v1_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"
#include "tensorcask/tests/fuzz/mend_table.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tensorcask::checkpoint {
namespace {

bool Same(const Tensor& a, const Tensor& b) {
  Variant first, second;
  first.tensors = {a};
  second.tensors = {b};
  return first == second;  // dtype, shape and every bit
}

void Check(absl::string_view bytes) {
  CheckpointReaderOptions options;
  options.limits.max_message_bytes = 1 << 20;
  options.limits.max_file_decoded_bytes = 4 << 20;
  options.limits.max_memory_beyond_input = 1 << 20;
  const absl::StatusOr<std::unique_ptr<ReaderImpl>> opened = OpenV1Checkpoint(MakeMemorySource("v1", bytes), options);
  if (!opened.ok()) return;
  const ReaderImpl& reader = **opened;
  const absl::StatusOr<std::vector<CheckpointEntry>> entries = reader.entries();
  int damages = 0;
  const absl::StatusOr<CheckpointCounts> counts =
      reader.VerifyAll(/*verify_bundle=*/nullptr, [&](const CheckpointDamage& damage) {
        FUZZ_CHECK(!damage.status.ok(), "damage was reported with an OK status");
        ++damages;
      });
  FUZZ_CHECK(counts.ok(), counts.status().ToString());
  if (damages == 0) FUZZ_CHECK(entries.ok(), entries.status().ToString());
  if (!entries.ok()) return;
  int64_t read = 0;
  for (const CheckpointEntry& entry : *entries) {
    const absl::StatusOr<CheckpointEntry> found = reader.Find(entry.name);
    FUZZ_CHECK(found.ok() && found->stored_bytes == entry.stored_bytes, found.status().ToString());
    const absl::StatusOr<Tensor> tensor = reader.Read(entry.name);
    if (damages == 0) FUZZ_CHECK(tensor.ok() || absl::IsResourceExhausted(tensor.status()), tensor.status().ToString());
    if (!tensor.ok()) continue;
    ++read;
    FUZZ_CHECK(tensor->dtype() == entry.dtype && tensor->shape() == entry.shape, "not what was listed");
    TensorView into = *Tensor::Create(entry.dtype, entry.shape);
    FUZZ_CHECK(reader.ReadInto(entry.name, &into).ok() && Same(*into.ToTensor(), *tensor), "not what Read gives");
    for (const TensorSlice& slice : entry.slices) {
      const absl::StatusOr<Tensor> part = reader.ReadSlice(entry.name, slice, /*verify_whole=*/false);
      const absl::StatusOr<TensorView> wanted = TensorView(*tensor).Slice(slice);
      FUZZ_CHECK(part.ok() && wanted.ok() && Same(*wanted->ToTensor(), *part), part.status().ToString());
    }
  }
  FUZZ_CHECK(counts->whole <= read || damages == 0, "whole, and cannot be read");
}

}  // namespace
}  // namespace tensorcask::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::checkpoint::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 != 0) {
    tensorcask::testing::MendTable(absl::MakeSpan(reinterpret_cast<char*>(data), size),
                                   [](absl::string_view, absl::Span<char>) {});
  }
  return size;
}
