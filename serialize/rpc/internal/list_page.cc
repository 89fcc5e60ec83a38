#include "tensorcask/serialize/rpc/internal/list_page.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/wire/shape_codec.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::rpc {
namespace {

constexpr size_t kPageBytes = size_t{1} << 20;

void EncodeEntry(const ArchiveReader& archive, const ArchiveEntry& entry, v1::OfferedTensor* out) {
  out->set_name(entry.name);
  out->set_dtype(static_cast<DataType>(DTypeNumber(entry.dtype)));
  EncodeShape(entry.shape, out->mutable_shape());
  if (!archive.strides_only_permute()) out->mutable_strides()->Add(entry.strides.begin(), entry.strides.end());
  out->set_encoding(entry.encoding);
  out->set_stored_bytes(entry.stored_bytes);
  if (entry.decoded_bytes.has_value()) out->set_decoded_bytes(*entry.decoded_bytes);
  out->set_has_metadata(entry.has_metadata);
}

}  // namespace

void SetVersion(const TensorVersion& version, v1::Version* out) {
  out->set_step(version.step);
  out->set_id(version.id);
}

absl::Status CheckVersion(bool is_named, const v1::Version& named, const TensorVersion& served) {
  if (!is_named || (named.id() == served.id && named.step() == served.step)) return absl::OkStatus();
  const TensorVersion other = {named.step(), named.id()};
  return absl::AbortedError(absl::StrCat("the server has ", served.ToString(), " now, and no longer ", other.ToString(),
                                         "; list its tensors again"));
}

absl::Status MakePage(const TensorSnapshot& snapshot, const v1::ListRequest& request, v1::ListResponse* page) {
  CASK_RETURN_IF_ERROR(CheckVersion(request.has_version(), request.version(), snapshot.version));
  SetVersion(snapshot.version, page->mutable_version());
  page->set_has_file_metadata(!snapshot.tensors->file_metadata().empty() || !snapshot.tensors->notes().empty());
  const std::vector<ArchiveEntry>& entries = snapshot.tensors->entries();
  const auto first =
      std::lower_bound(entries.begin(), entries.end(), request.prefix(),
                       [](const ArchiveEntry& entry, const std::string& key) { return entry.name < key; });
  const auto left = static_cast<uint64_t>(entries.end() - first);
  if (request.start() > left) {
    return absl::OutOfRangeError(absl::StrCat("a page from tensor ", request.start(), "; there are ", left));
  }
  size_t bytes = 0;
  for (auto entry = first + static_cast<int64_t>(request.start()); entry != entries.end(); ++entry) {
    if (!absl::StartsWith(entry->name, request.prefix())) break;
    if (!entry->read_status.ok()) continue;
    if (bytes >= kPageBytes) {
      page->set_next(static_cast<uint64_t>(entry - first));
      break;
    }
    v1::OfferedTensor* const tensor = page->add_tensors();
    EncodeEntry(*snapshot.tensors, *entry, tensor);
    bytes += tensor->ByteSizeLong();
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::rpc
