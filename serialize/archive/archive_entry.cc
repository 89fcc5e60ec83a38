#include "tensorcask/serialize/archive/archive_entry.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/checked_math.h"

namespace tensorcask {

uint64_t ElementBytes(const ArchiveEntry& entry) {
  if (entry.decoded_bytes) return *entry.decoded_bytes;
  const size_t element_size = ElementSize(entry.dtype);
  if (element_size == 0) return entry.stored_bytes;
  return CheckedMul(static_cast<uint64_t>(entry.shape.num_elements()), element_size).value_or(UINT64_MAX);
}

uint64_t ElementBytes(absl::Span<const ArchiveEntry* const> entries) {
  uint64_t total = 0;
  for (const ArchiveEntry* const entry : entries) total = CheckedAdd(total, ElementBytes(*entry)).value_or(UINT64_MAX);
  return total;
}

uint64_t EntryMemory(const ArchiveEntry& entry) {
  constexpr uint64_t kCopies = 2;
  return kCopies * (sizeof(ArchiveEntry) + entry.name.size() + entry.encoding.size() + entry.alias_of.size() +
                    sizeof(int64_t) * (static_cast<uint64_t>(entry.shape.rank()) + entry.strides.size()));
}

ArchiveEntry DescribeTensor(std::string name, const DecodedTensor& tensor) {
  ArchiveEntry entry;
  entry.name = std::move(name);
  entry.dtype = tensor.view.dtype();
  entry.shape = tensor.view.shape();
  const bool row_major = tensor.view.IsContiguous();
  const bool own_dtype = DTypeNumber(entry.dtype) >= kFirstOwnDTypeNumber;
  entry.encoding = !row_major || own_dtype ? "extension-only" : "plain";
  if (tensor.payload != nullptr) {
    entry.encoding = absl::StrCat("encoded ", PayloadLevelName(static_cast<PayloadLevel>(tensor.payload->level)),
                                  tensor.payload->is_delta ? " delta" : "");
    entry.decoded_bytes = tensor.payload->decoded_bytes();
  }
  if (!row_major) entry.strides.assign(tensor.view.strides().begin(), tensor.view.strides().end());
  entry.has_metadata = !tensor.metadata.IsDefault() || !tensor.metadata_status.ok();
  return entry;
}

std::string NameFromPath(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot > 0) name.resize(dot);
  return name;
}

}  // namespace tensorcask
