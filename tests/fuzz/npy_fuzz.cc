// An npy file: refused, or all that it lists is read, in whole and in part, with one result.
//
// Is to reach what input can reach of these files:
//   serialize/npy/internal/*_parser*
//   serialize/npy/internal/[ate]*
//   serialize/npy/internal/npy_header*

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/npy/npy_reader.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask {
namespace {

void Check(absl::string_view bytes) {
  NpyReaderOptions options;
  options.limits.max_file_decoded_bytes = 4 << 20;
  options.limits.max_memory_beyond_input = 1 << 20;
  options.dtype_of_opaque_elements = DType::kFloat8E4m3fn;
  const absl::StatusOr<NpyReader> reader = NpyReader::Open(MakeMemorySource("a.npy", bytes), options);
  if (!reader.ok()) return;
  for (const NpyEntry& entry : reader->entries()) {
    const absl::StatusOr<Tensor> tensor = reader->Read(entry.name);
    const absl::Status verified = reader->Verify(entry.name);
    if (!tensor.ok()) {
      FUZZ_CHECK(!verified.ok() || absl::IsResourceExhausted(tensor.status()), tensor.status().ToString());
      continue;
    }
    FUZZ_CHECK(verified.ok(), verified.ToString());
    FUZZ_CHECK(tensor->dtype() == entry.dtype && tensor->shape() == entry.shape, "not what was listed");
    const absl::StatusOr<TensorView> view = reader->ReadView(entry.name);
    FUZZ_CHECK(view.ok() && Equal(*view, *tensor), "ReadView");
    Tensor into = *Tensor::Create(entry.dtype, entry.shape);
    FUZZ_CHECK(reader->ReadInto(entry.name, &into).ok() && Equal(into, *tensor), "ReadInto");
    std::vector<TensorSlice::Extent> extents(entry.shape.rank());
    for (int axis = 0; axis < entry.shape.rank(); ++axis) {
      if (entry.shape.dim(axis) > 1 && (bytes.size() >> (axis % 8) & 1) != 0)
        extents[axis] = {1, entry.shape.dim(axis) / 2};
    }
    const TensorSlice slice = *TensorSlice::Create(extents);
    const absl::StatusOr<Tensor> part = reader->ReadSlice(entry.name, slice);
    FUZZ_CHECK(part.ok() && Equal(*part, *TensorView(*tensor).Slice(slice)), slice.ToString());
  }
}

}  // namespace
}  // namespace tensorcask

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
