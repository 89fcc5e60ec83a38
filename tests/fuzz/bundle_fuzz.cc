// A checkpoint of an index and one data file, forged in memory: opened, listed, read, mapped and verified.
//
// The input is a byte of flags, two bytes for the size of the data file, the data file, and the index.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/wire/wire_reader.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"
#include "tensorcask/tests/fuzz/mend_table.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tensorcask::testing {
namespace {

constexpr size_t kHeadBytes = 3;

// A BundleEntryProto gets the checksum of its bytes, if they are in the data file. (Strings have another one, which
// stays wrong unless the fuzzer keeps it.)
void MendEntry(absl::string_view data_file, absl::Span<char> value) {
  uint64_t offset = 0, size_bytes = 0;
  char* checksum = nullptr;
  WireReader reader(absl::string_view(value.data(), value.size()));
  WireReader::Field field;
  while (reader.Next(&field)) {
    if (field.number == 1 && field.value == 7) return;  // strings
    if (field.number == 4 && field.type == WireType::kVarint) offset = field.value;
    if (field.number == 5 && field.type == WireType::kVarint) size_bytes = field.value;
    // A tag of one byte, or of more if somebody spelled it so.
    if (field.number == 6 && field.type == WireType::kFixed32) {
      checksum = value.data() + field.position;
      while ((*checksum++ & 0x80) != 0) continue;
    }
  }
  if (!reader.status().ok() || checksum == nullptr || !RangeFits(offset, size_bytes, data_file.size())) return;
  const absl::string_view stored = data_file.substr(static_cast<size_t>(offset), static_cast<size_t>(size_bytes));
  StoreLittleEndian(MaskCrc32c(Crc32c(stored)), checksum);
}

void Mend(absl::Span<char> input) {
  if (input.size() < kHeadBytes) return;
  FuzzInput parts(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  parts.Bits(1);
  const size_t data_bytes = std::min<size_t>(parts.Bits(2), input.size() - kHeadBytes);
  const absl::string_view data_file = parts.Bytes(data_bytes);
  MendTable(input.subspan(kHeadBytes + data_bytes),
            [&](absl::string_view, absl::Span<char> value) { MendEntry(data_file, value); });
}

void Check(FuzzInput input) {
  const uint64_t flags = input.Bits(1);
  MemoryFileSystem files;
  {
    const size_t data_bytes = static_cast<size_t>(input.Bits(2));
    files.Put("/c.data-00000-of-00001", input.Bytes(data_bytes));
    files.Put("/c.index", input.Rest());
    CheckpointReaderOptions options;
    options.read.file_system = &files;
    options.read.strategy = flags & 1 ? ReadStrategy::kMap : ReadStrategy::kRead;
    options.verify = flags & 2 ? Verify::kNever : Verify::kOnRead;
    options.limits.max_message_bytes = 1 << 20;
    options.limits.max_file_decoded_bytes = 4 << 20;
    options.limits.max_unbacked_bytes = 1 << 20;
    const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open("/c", options);
    if (!reader.ok()) return;
    const absl::StatusOr<std::vector<CheckpointEntry>> entries = reader->entries();
    if (entries.ok()) {
      for (const CheckpointEntry& entry : *entries) {
        const absl::StatusOr<Tensor> tensor = reader->Read(entry.name);
        const absl::StatusOr<Tensor> mapped = reader->Map(entry.name);
        if (tensor.ok()) {
          FUZZ_CHECK(tensor->dtype() == entry.dtype && tensor->shape() == entry.shape, "not what was listed");
          FUZZ_CHECK(mapped.ok() && mapped->ToString() == tensor->ToString(), mapped.status().ToString());
          Tensor into = *tensor;
          FUZZ_CHECK(reader->ReadInto(entry.name, &into).ok(), "read once, and not again");
        }
      }
    }
    int damages = 0;
    const absl::StatusOr<CheckpointCensus> census =
        reader->VerifyAll([&](const CheckpointDamage& damage) { damages += damage.status.ok() ? 0 : 1; });
    if (census.ok() && damages == 0) FUZZ_CHECK(entries.ok(), entries.status().ToString());
  }
  FUZZ_CHECK(files.open_handles() == 0, "files were left open");
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::testing::Check(tensorcask::testing::FuzzInput(data, size));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 != 0) tensorcask::testing::Mend(absl::MakeSpan(reinterpret_cast<char*>(data), size));
  return size;
}
