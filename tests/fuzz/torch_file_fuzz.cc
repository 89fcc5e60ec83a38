// A file of torch.save, in either container: refused, or each tensor is read in each way with one result, or is
// damaged.
//
// Is to reach what input can reach of these files:
//   serialize/torch/torch_reader*
//   serialize/torch/internal/[qst]*

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/torch/torch_reader.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask {
namespace {

void Check(absl::string_view bytes, bool verify) {
  TorchReaderOptions options;
  options.verify = verify;
  options.opaque_objects = !verify;
  options.limits.max_file_decoded_bytes = 4 << 20;
  options.limits.max_memory_beyond_input = 1 << 20;
  const absl::StatusOr<TorchReader> reader = TorchReader::OpenSource(MakeMemorySource("a.pt", bytes), options);
  if (!reader.ok()) return;
  int damages = 0;
  const absl::Status verified = reader->VerifyAll([&](const TorchDamage& damage) {
    FUZZ_CHECK(!damage.status.ok(), "damage was reported with an OK status");
    ++damages;
  });
  FUZZ_CHECK(verified.ok(), verified.ToString());
  for (const TorchEntry& entry : reader->entries()) {
    FUZZ_CHECK(reader->FindEntry(entry.name) == &entry, "two entries of one name");
    const absl::StatusOr<Tensor> tensor = reader->Read(entry.name);
    if (!tensor.ok()) {
      FUZZ_CHECK(!entry.read_status.ok() || damages > 0 || absl::IsResourceExhausted(tensor.status()),
                 tensor.status().ToString());
      continue;
    }
    FUZZ_CHECK(tensor->dtype() == entry.dtype && tensor->shape() == entry.shape, "not what was listed");
    const absl::StatusOr<TensorView> view = reader->ReadView(entry.name);
    FUZZ_CHECK(view.ok() && Equal(*view, *tensor), "ReadView");
    Tensor into = *Tensor::Create(entry.dtype, entry.shape);
    TensorView target = into;
    FUZZ_CHECK(reader->ReadInto(entry.name, &target).ok() && Equal(into, *tensor), "ReadInto");
    const TensorSlice slice = TensorSlice::Full(entry.shape.rank());
    const absl::StatusOr<Tensor> part = reader->ReadSlice(entry.name, slice);
    FUZZ_CHECK(part.ok() && Equal(*part, *tensor), "ReadSlice");
    reader->Metadata(entry.name).status().IgnoreError();
  }
}

}  // namespace
}  // namespace tensorcask

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const bool verify : {true, false}) tensorcask::Check({reinterpret_cast<const char*>(data), size}, verify);
  return 0;
}
