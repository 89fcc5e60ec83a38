#include "tensorcask/serialize/hdf5/internal/fixed_array.h"

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/hdf5/internal/cursor.h"
#include "tensorcask/serialize/hdf5/internal/metadata_checksum.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::hdf5 {
namespace {

absl::Status Broken(absl::string_view rule) {
  return absl::DataLossError(absl::StrCat("finds its chunks by a fixed array that ", rule));
}

}  // namespace

absl::Status ForEachElement(uint64_t header, uint64_t count, bool has_filters, File* file,
                            absl::FunctionRef<absl::Status(uint64_t i, absl::string_view element)> fn) {
  const auto address_bytes = static_cast<uint64_t>(file->address_bytes());
  const uint64_t kind = has_filters ? 1 : 0;
  const auto is_part = [&](Cursor* in, absl::string_view signature) {
    return in->Bytes(4) == signature && in->Uint(1) == 0 && in->Uint(1) == kind;
  };
  CASK_ASSIGN_OR_RETURN(const std::string head, file->Read(header, 4 + 4 + static_cast<uint64_t>(file->length_bytes()) +
                                                                       address_bytes + kChecksumBytes));
  Cursor in(head);
  if (!is_part(&in, "FAHD")) return Broken("has not its signature");
  CASK_RETURN_IF_ERROR(CheckMetadataChecksum(head));
  const uint64_t element_bytes = in.Uint(1);
  const uint64_t page_bits = in.Uint(1);
  const uint64_t num_elements = file->Length(&in);
  const uint64_t block = file->Address(&in);
  const uint64_t fewest_bytes = address_bytes + (has_filters ? 1 + 4 : 0);
  if (element_bytes < fewest_bytes || element_bytes > fewest_bytes + 7 || page_bits >= 32) {
    return Broken(absl::StrCat("has elements of ", element_bytes, " bytes and pages of 2^", page_bits));
  }
  if (num_elements != count) {
    return absl::UnimplementedError(absl::StrCat("has ", count, " chunks and places for ", num_elements,
                                                 ", because it may grow; such datasets are not read"));
  }
  if (block == kUndefined || count == 0) return absl::OkStatus();
  if (!CheckedMul(count, element_bytes + kChecksumBytes).has_value()) return Broken("has more than 2^64 bytes");

  const uint64_t in_page = uint64_t{1} << page_bits;
  const bool is_paged = count > in_page;
  const uint64_t num_pages = is_paged ? (count - 1) / in_page + 1 : 0;
  const uint64_t prefix = 4 + 2 + address_bytes;
  // The elements, or a bit for each page; then a checksum. Pages follow, each with its own.
  const uint64_t body = is_paged ? (num_pages - 1) / 8 + 1 : count * element_bytes;
  CASK_ASSIGN_OR_RETURN(const std::string first, file->Read(block, prefix + body + kChecksumBytes));
  Cursor of_block(first);
  if (!is_part(&of_block, "FADB") || file->Address(&of_block) != header) return Broken("has a block of another one");
  CASK_RETURN_IF_ERROR(CheckMetadataChecksum(first));
  if (!is_paged) {
    for (uint64_t i = 0; i < count; ++i) CASK_RETURN_IF_ERROR(fn(i, of_block.Bytes(element_bytes)));
    return absl::OkStatus();
  }
  const absl::string_view written = of_block.Bytes(body);
  uint64_t address = block + first.size();
  for (uint64_t page = 0; page < num_pages; ++page) {
    const uint64_t start = page * in_page;
    const uint64_t elements = std::min(in_page, count - start);
    const uint64_t bytes = elements * element_bytes + kChecksumBytes;
    if ((static_cast<unsigned char>(written[static_cast<size_t>(page / 8)]) & (0x80 >> (page % 8))) != 0) {
      CASK_ASSIGN_OR_RETURN(const std::string content, file->Read(address, bytes));
      CASK_RETURN_IF_ERROR(CheckMetadataChecksum(content));
      Cursor of_page(content);
      for (uint64_t i = 0; i < elements; ++i) CASK_RETURN_IF_ERROR(fn(start + i, of_page.Bytes(element_bytes)));
    }
    address += bytes;
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::hdf5
