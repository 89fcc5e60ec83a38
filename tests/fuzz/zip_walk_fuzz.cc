// The walk over a zip archive without its directory: the members that it finds follow one another inside the file, and
// of a whole archive it finds all, as the directory lists them. The mutator mends checksums in three of four inputs.
//
// Is to reach what input can reach of these files:
//   serialize/zip/zip_walk*
//   serialize/zip/zip_member*

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/zip/zip_directory.h"
#include "tensorcask/serialize/zip/zip_member.h"
#include "tensorcask/serialize/zip/zip_member_stream.h"
#include "tensorcask/serialize/zip/zip_walk.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tensorcask {
namespace {

constexpr uint64_t kMaxBytes = 1 << 20;  // that members inflate to

bool IsWhole(const ByteSource& file, const ZipMember& member) {
  return member.status.ok() && member.size_bytes <= kMaxBytes &&
         ZipMemberStream(&file, &member, /*verify=*/true).Finish().ok();
}

void Check(absl::string_view bytes) {
  DecodeLimits limits;
  limits.max_file_decoded_bytes = kMaxBytes;
  const auto file = MakeMemorySource("a.zip", bytes);
  absl::StatusOr<std::vector<ZipMember>> listed = ReadZipDirectory(*file, limits);
  const auto size_of_data = [&](const ZipMember& rest) -> absl::StatusOr<uint64_t> {
    for (size_t i = 0; listed.ok() && i < listed->size(); ++i) {
      if ((*listed)[i].data_offset == rest.data_offset) return (*listed)[i].size_bytes;
    }
    char size = 0;  // the content says it
    ZipMemberStream stream(file.get(), &rest, /*verify=*/false);
    if (absl::Status status = stream.Read(absl::MakeSpan(&size, 1)); !status.ok()) return status;
    return static_cast<uint64_t>(static_cast<unsigned char>(size));
  };
  const absl::StatusOr<ZipWalk> walk = WalkZip(*file, limits, size_of_data);
  FUZZ_CHECK(walk.ok(), walk.status().ToString());
  FUZZ_CHECK(walk->end <= bytes.size(), "ends behind the file");
  uint64_t end = 0;
  for (const ZipMember& member : walk->members) {
    FUZZ_CHECK(member.header_offset >= end, "overlaps the member before it");
    FUZZ_CHECK(member.status.ok() || !IsResourceFailure(member.status), member.status.ToString());
    if (!member.status.ok()) continue;
    FUZZ_CHECK(member.data_offset >= member.header_offset + 30 + member.name.size(), "data in the header");
    FUZZ_CHECK(member.data_offset <= bytes.size() && member.stored_bytes <= bytes.size() - member.data_offset,
               "leaves the file");
    end = member.data_offset + member.stored_bytes;
    IsWhole(*file, member);
  }
  if (!listed.ok()) return;
  std::sort(listed->begin(), listed->end(),
            [](const ZipMember& a, const ZipMember& b) { return a.header_offset < b.header_offset; });
  uint64_t inflated = 0;
  for (size_t i = 0; i < listed->size(); ++i) {
    const ZipMember& member = (*listed)[i];
    if (!IsWhole(*file, member)) return;  // the walk may end here
    inflated += member.size_bytes;
    if (inflated > kMaxBytes) return;
    FUZZ_CHECK(i < walk->members.size(), "a member is not found");
    const ZipMember& found = walk->members[i];
    FUZZ_CHECK(found.status.ok(), found.status.ToString());
    FUZZ_CHECK(found.name == member.name && found.deflated == member.deflated && found.crc32 == member.crc32 &&
                   found.header_offset == member.header_offset && found.data_offset == member.data_offset &&
                   found.stored_bytes == member.stored_bytes && found.size_bytes == member.size_bytes,
               "not what the directory lists");
  }
  FUZZ_CHECK(walk->members.size() == listed->size() && walk->reason.empty(), "members that the directory lacks");
}

// Sets the checksums of stored members before their data to those of the data.
void Mend(uint8_t* data, size_t size) {
  char* const bytes = reinterpret_cast<char*>(data);
  for (size_t at = 0; at + 30 <= size; ++at) {
    if (std::memcmp(bytes + at, "PK\3\4", 4) != 0 || LoadLittleEndian<uint16_t>(bytes + at + 8) != 0) continue;
    const uint64_t stored = LoadLittleEndian<uint32_t>(bytes + at + 18);
    const uint64_t start =
        at + 30 + LoadLittleEndian<uint16_t>(bytes + at + 26) + LoadLittleEndian<uint16_t>(bytes + at + 28);
    if (start > size || stored > size - start) continue;
    StoreLittleEndian(Crc32(absl::string_view(bytes + start, stored)), bytes + at + 14);
  }
}

}  // namespace
}  // namespace tensorcask

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 4 != 0) tensorcask::Mend(data, size);
  return size;
}
