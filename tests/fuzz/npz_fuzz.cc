// An npz file: refused, or each tensor is read with its checksum or is reported as damaged. The mutator mends sizes,
// offsets and checksums in three of four inputs, so that false values get past those checks.
//
// Is to reach what input can reach of these files:
//   serialize/npy/npz_reader*
//   serialize/zip/zip_directory*
//   serialize/zip/zip_member*

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tensorcask {
namespace {

void Check(absl::string_view bytes, bool recover) {
  NpyReaderOptions options;
  options.recover_members = recover;
  options.limits.max_file_decoded_bytes = 4 << 20;
  options.limits.max_memory_beyond_input = 1 << 20;
  const absl::StatusOr<NpzReader> reader = NpzReader::Open(MakeMemorySource("a.npz", bytes), options);
  if (!reader.ok()) return;
  int damages = 0;
  const absl::Status counts = reader->VerifyAll([&](const NpyDamage& damage) {
    FUZZ_CHECK(!damage.status.ok(), "damage was reported with an OK status");
    ++damages;
  });
  FUZZ_CHECK(counts.ok(), counts.ToString());
  for (const NpyEntry& entry : reader->entries()) {
    if (!entry.readable.ok()) continue;
    const absl::StatusOr<Tensor> tensor = reader->Read(entry.name);
    if (!tensor.ok()) {
      FUZZ_CHECK(damages > 0 || absl::IsResourceExhausted(tensor.status()), tensor.status().ToString());
      continue;
    }
    FUZZ_CHECK(reader->Verify(entry.name).ok(), "read, and not whole");
    FUZZ_CHECK(tensor->dtype() == entry.dtype && tensor->shape() == entry.shape, "not what was listed");
    const absl::StatusOr<TensorView> view = reader->ReadView(entry.name);
    FUZZ_CHECK(view.ok() && Equal(*view, *tensor), "ReadView");
    Tensor into = *Tensor::Create(entry.dtype, entry.shape);
    FUZZ_CHECK(reader->ReadInto(entry.name, &into).ok() && Equal(into, *tensor), "ReadInto");
  }
}

// Sets the checksums of stored members, in the directory and before the data, to those of the data.
void Mend(uint8_t* data, size_t size) {
  char* const bytes = reinterpret_cast<char*>(data);
  for (size_t at = 0; at + 46 <= size; ++at) {
    if (std::memcmp(bytes + at, "PK\1\2", 4) != 0) continue;
    const uint64_t header = LoadLittleEndian<uint32_t>(bytes + at + 42);
    const uint64_t stored = LoadLittleEndian<uint32_t>(bytes + at + 20);
    if (LoadLittleEndian<uint16_t>(bytes + at + 10) != 0 || header + 30 > size) continue;
    const uint64_t start =
        header + 30 + LoadLittleEndian<uint16_t>(bytes + header + 26) + LoadLittleEndian<uint16_t>(bytes + header + 28);
    if (start > size || stored > size - start) continue;
    const uint32_t crc = Crc32(absl::string_view(bytes + start, stored));
    StoreLittleEndian(crc, bytes + at + 16);
    if (LoadLittleEndian<uint32_t>(bytes + header + 14) != 0) StoreLittleEndian(crc, bytes + header + 14);
  }
}

}  // namespace
}  // namespace tensorcask

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const bool recover : {false, true}) {
    tensorcask::Check({reinterpret_cast<const char*>(data), size}, recover);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 4 != 0) tensorcask::Mend(data, size);
  return size;
}
