// A checkpoint of an index and one data file, forged in memory: opened, listed, read in every way there is, verified
// and salvaged, and all of these agree.
//
// The input is a byte of flags, two bytes for the size of the data file, the data file, and the index.
//
// Is to reach what input can reach of these files:
//   serialize/checkpoint/*reader*
//   serialize/checkpoint/salvage*
//   serialize/checkpoint/table/*reader*
//   serialize/checkpoint/table/block_search*
//   serialize/checkpoint/table/table_salvage*
//   serialize/checkpoint/format/entry_decoder*
//   serialize/checkpoint/format/slice_key*
//   serialize/checkpoint/format/string_codec*
//   serialize/checkpoint/format/stored_variants*
//   serialize/checkpoint/read/[!v]*
//   serialize/wire/message/layout_decoder*

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/format/stored_variants.h"
#include "tensorcask/serialize/checkpoint/format/string_codec.h"
#include "tensorcask/serialize/checkpoint/salvage.h"
#include "tensorcask/serialize/checkpoint/table/block_search.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"
#include "tensorcask/tests/fuzz/mend_payload.h"
#include "tensorcask/tests/fuzz/mend_table.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tensorcask::testing {
namespace {

constexpr size_t kHeaderBytes = 3;

// ---- Mending --------------------------------------------------------------------------------------------------------

// Gives the lengths of strings the checksum that stands after them; that of the whole entry, unmasked.
uint32_t MendStrings(absl::Span<char> stored, uint64_t count) {
  absl::string_view rest(stored.data(), stored.size());
  uint32_t crc = 0;
  for (uint64_t i = 0; i < count; ++i) {
    char length[sizeof(uint64_t)];
    uint64_t value = 0;
    ParseCanonicalVarint(&rest, &value);  // ParseStrings has seen them all
    StoreLittleEndian(value, length);
    crc = ExtendCrc32c(crc, absl::string_view(length, value <= UINT32_MAX ? sizeof(uint32_t) : sizeof(uint64_t)));
  }
  StoreLittleEndian(MaskCrc32c(crc), stored.data() + (stored.size() - rest.size()));
  return ExtendCrc32c(crc, rest);
}

// Gives each variant the checksum that stands after it; that of the whole entry, unmasked.
uint32_t MendVariants(absl::Span<char> stored, uint64_t count) {
  absl::string_view rest(stored.data(), stored.size());
  uint32_t crc = 0;
  for (uint64_t i = 0; i < count; ++i) {
    char length[sizeof(uint64_t)];
    uint64_t value = 0;
    ParseCanonicalVarint(&rest, &value);  // ParseVariants has seen them all
    StoreLittleEndian(value, length);
    crc = ExtendCrc32c(crc, absl::string_view(length, sizeof(length)));
    crc = ExtendCrc32c(crc, rest.substr(0, static_cast<size_t>(value)));
    rest.remove_prefix(static_cast<size_t>(value));
    StoreLittleEndian(MaskCrc32c(crc), stored.data() + (stored.size() - rest.size()));
    crc = ExtendCrc32c(crc, rest.substr(0, sizeof(uint32_t)));
    rest.remove_prefix(sizeof(uint32_t));
  }
  return crc;
}

// Mends the payload of an encoded entry, and the copy of its header in the entry.
void MendEncoded(const PayloadHeader& listed, absl::Span<char> payload, absl::Span<char> value) {
  MendPayload(payload);
  if (payload.size() < kPayloadHeaderBytes) return;
  const size_t at = absl::string_view(value.data(), value.size()).find(listed.Encode());
  if (at != absl::string_view::npos) std::copy_n(payload.data(), kPayloadHeaderBytes, value.data() + at);
}

// A BundleEntryProto gets the checksum of its bytes, and they get those in them, if the entry makes sense so far and
// the bytes are in the data file.
void MendEntry(absl::Span<char> data_file, absl::Span<char> value) {
  const absl::string_view message(value.data(), value.size());
  checkpoint::IndexEntry index;
  if (!checkpoint::DecodeEntry(message, checkpoint::kMaxShards, DecodeLimits(), &index).ok()) return;
  const CheckpointEntry& entry = index.entry;
  if (!RangeFits(entry.offset, entry.stored_bytes, data_file.size())) return;
  char* checksum = nullptr;
  WireReader reader(message);
  for (WireReader::Field field; reader.Next(&field);) {
    if (field.number != 6) continue;
    // The tag has one byte, or more if it is not canonical.
    checksum = value.data() + field.position;
    while ((*checksum++ & 0x80) != 0) continue;
  }
  if (checksum == nullptr) return;
  const absl::Span<char> stored =
      data_file.subspan(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.stored_bytes));
  const absl::string_view bytes(stored.data(), stored.size());
  const auto count = static_cast<uint64_t>(entry.shape.num_elements());
  uint32_t crc = 0;
  if (entry.form == EntryForm::kPlain && entry.dtype == DType::kString) {
    if (!checkpoint::ParseStrings(bytes, count, /*verify=*/false).ok()) return;
    crc = MendStrings(stored, count);
  } else if (entry.form == EntryForm::kPlain && entry.dtype == DType::kVariant) {
    if (!checkpoint::ParseVariants(bytes, count, /*verify=*/false).ok()) return;
    crc = MendVariants(stored, count);
  } else {
    if (entry.payload != nullptr) MendEncoded(*entry.payload, stored, value);
    crc = Crc32c(bytes);
  }
  StoreLittleEndian(MaskCrc32c(crc), checksum);
}

void Mend(absl::Span<char> input) {
  if (input.size() < kHeaderBytes) return;
  FuzzInput parts(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  parts.Bits(1);
  const size_t data_bytes = std::min<size_t>(parts.Bits(2), input.size() - kHeaderBytes);
  const absl::Span<char> data_file = input.subspan(kHeaderBytes, data_bytes);
  MendTable(input.subspan(kHeaderBytes + data_bytes),
            [&](absl::string_view, absl::Span<char> value) { MendEntry(data_file, value); });
}

// ---- Checking -------------------------------------------------------------------------------------------------------

bool Same(const Tensor& a, const Tensor& b) {
  Variant first, second;
  first.tensors = {a};
  second.tensors = {b};
  return first == second;  // dtype, shape and every bit
}
bool Same(const TensorView& view, const Tensor& tensor) {
  const absl::StatusOr<Tensor> dense = view.ToTensor();
  return dense.ok() && Same(*dense, tensor);
}

// Reads `entry` in every other way than that which gave `tensor`.
void CheckRead(const CheckpointReader& reader, const CheckpointEntry& entry, const Tensor& tensor) {
  FUZZ_CHECK(tensor.dtype() == entry.dtype && tensor.shape() == entry.shape, "not what was listed");
  const absl::StatusOr<Tensor> mapped = reader.Map(entry.name);
  FUZZ_CHECK(mapped.ok() && Same(*mapped, tensor), mapped.status().ToString());
  Tensor into = tensor;
  FUZZ_CHECK(reader.ReadInto(entry.name, &into).ok(), "read once, and not again");

  TensorSlice part = TensorSlice::Full(entry.shape.rank());
  for (const bool verify_whole : {false, true}) {
    const absl::StatusOr<Tensor> full = reader.ReadSlice(entry.name, part, verify_whole);
    FUZZ_CHECK(full.ok() && Same(*full, tensor), full.status().ToString());
  }
  std::vector<TensorSlice::Extent> extents(static_cast<size_t>(entry.shape.rank()));
  for (int axis = 0; axis < entry.shape.rank(); ++axis) {
    const int64_t dim = entry.shape.dim(axis);
    if (dim > 1) extents[static_cast<size_t>(axis)] = {dim / 3, (dim + 1) / 2};
  }
  part = *TensorSlice::Create(extents);
  const absl::StatusOr<Tensor> some = reader.ReadSlice(entry.name, part);
  const absl::StatusOr<TensorView> wanted = TensorView(tensor).Slice(part);
  FUZZ_CHECK(some.ok() && wanted.ok() && Same(*wanted, *some), some.status().ToString());
}

// True if the index holds only blocks that its own block index names. Salvage would also find hidden blocks between
// them, and could prefer those.
bool HidesNothing(absl::string_view index, const DecodeLimits& limits) {
  const absl::StatusOr<std::unique_ptr<checkpoint::TableReader>> table =
      checkpoint::TableReader::Open(MakeMemorySource("index", index), limits);
  uint64_t whole_blocks = 0;
  checkpoint::ForEachWholeBlock(
      index, limits, [&](const checkpoint::BlockHandle&, const checkpoint::BlockReader&) { ++whole_blocks; });
  return table.ok() && whole_blocks == (*table)->num_blocks() + 2;  // metaindex and index
}

void Check(FuzzInput input) {
  const uint64_t flags = input.Bits(1);
  MemoryFileSystem files;
  {
    const size_t data_bytes = static_cast<size_t>(input.Bits(2));
    files.Put("/c.data-00000-of-00001", input.Bytes(data_bytes));
    const absl::string_view index = input.Rest();
    files.Put("/c.index", index);
    CheckpointReaderOptions options;
    options.read.file_system = &files;
    options.read.strategy = flags & 1 ? ReadStrategy::kMap : ReadStrategy::kRead;
    options.verify = flags & 2 ? Verify::kNever : Verify::kOnRead;
    options.limits.max_message_bytes = 1 << 20;
    options.limits.max_file_decoded_bytes = 4 << 20;
    options.limits.max_memory_beyond_input = 1 << 20;

    std::map<std::string, Tensor> saved;
    const absl::StatusOr<SalvageReport> report =
        SalvageTensors("/c", options, [&](absl::string_view name, const DecodedTensor& decoded) {
          const absl::StatusOr<Tensor> tensor = decoded.view.ToTensor();
          FUZZ_CHECK(tensor.ok(), tensor.status().ToString());
          FUZZ_CHECK(saved.emplace(name, *tensor).second, "saved twice");
          return absl::OkStatus();
        });
    if (report.ok()) FUZZ_CHECK(report->saved == static_cast<int64_t>(saved.size()), "saved, and not counted");

    const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open("/c", options);
    if (!reader.ok()) return;
    const absl::StatusOr<std::vector<CheckpointEntry>> entries = reader->entries();
    const absl::StatusOr<std::vector<CheckpointNamedTensor>> all = reader->ReadAll();
    FUZZ_CHECK(entries.ok() || !all.ok(), "read all of what cannot be listed");
    bool all_read = true;
    if (entries.ok()) {
      const bool salvage_sees_it =
          report.ok() && options.verify == Verify::kOnRead && HidesNothing(index, options.limits);
      for (const CheckpointEntry& entry : *entries) {
        const absl::StatusOr<Tensor> tensor = reader->Read(entry.name);
        const absl::StatusOr<TensorMetadata> metadata = reader->Metadata(entry.name);
        const absl::StatusOr<DecodedTensor> decoded = reader->ReadWithMetadata(entry.name);
        FUZZ_CHECK(decoded.ok() == (tensor.ok() && metadata.ok()), decoded.status().ToString());
        if (decoded.ok()) {
          FUZZ_CHECK(decoded->metadata == *metadata && Same(decoded->view, *tensor), "not what Read gives");
          const auto found = saved.find(entry.name);
          if (salvage_sees_it) FUZZ_CHECK(found != saved.end() && Same(found->second, *tensor), "not salvaged");
        }
        if (tensor.ok()) {
          CheckRead(*reader, entry, *tensor);
        } else {
          all_read = false;
        }
      }
      FUZZ_CHECK(!all.ok() || (all_read && all->size() == entries->size()), "read all of what cannot be read");
      FUZZ_CHECK(all.ok() || !all_read || absl::IsResourceExhausted(all.status()), all.status().ToString());
    }
    if (all.ok()) {
      for (const CheckpointNamedTensor& named : *all) {
        const absl::StatusOr<Tensor> tensor = reader->Read(named.name);
        FUZZ_CHECK(tensor.ok() && Same(*tensor, named.tensor), named.name);
      }
    }
    int damages = 0;
    const absl::StatusOr<CheckpointCounts> counts =
        reader->VerifyAll([&](const CheckpointDamage& damage) { damages += damage.status.ok() ? 0 : 1; });
    if (counts.ok() && damages == 0) FUZZ_CHECK(entries.ok(), entries.status().ToString());
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
