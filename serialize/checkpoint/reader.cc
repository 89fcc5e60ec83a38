#include "tensorcask/serialize/checkpoint/reader.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/bundle_reader.h"
#include "tensorcask/serialize/checkpoint/naming.h"
#include "tensorcask/serialize/checkpoint/reader_impl.h"
#include "tensorcask/serialize/checkpoint/v1_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask {
namespace {

// What reading all of `entries` takes. Errors: ResourceExhausted past the limit.
absl::Status CheckDecodedBytes(absl::string_view prefix, const std::vector<CheckpointEntry>& entries, int64_t limit) {
  std::optional<uint64_t> total = 0;
  for (const CheckpointEntry& entry : entries) {
    // Not what is stored: in V1 files that may be varints.
    std::optional<uint64_t> bytes =
        CheckedMul(static_cast<uint64_t>(entry.shape.num_elements()), uint64_t{ObjectBytes(entry.dtype)});
    if (bytes.has_value() && IsObject(entry.dtype)) bytes = CheckedAdd(*bytes, entry.stored_bytes);
    if (bytes.has_value() && total.has_value()) {
      total = CheckedAdd(*total, *bytes);
    } else {
      total.reset();
    }
  }
  if (total.has_value() && *total <= static_cast<uint64_t>(std::max<int64_t>(limit, 0))) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(prefix, ": ", entries.size(), " tensors take ",
                                                   total.has_value() ? absl::StrCat(*total) : "more than 2^64",
                                                   " bytes, past max_file_decoded_bytes ", limit));
}

// What the variants in `tensor` hold, bytes: that is known only when they are there. Ends once it is past `enough`.
int64_t BytesInVariants(const Tensor& tensor, int64_t enough) {
  int64_t bytes = 0;
  std::vector<Tensor> waiting = {tensor};
  while (!waiting.empty() && bytes <= enough) {
    const Tensor next = std::move(waiting.back());
    waiting.pop_back();
    if (next.dtype() != DType::kVariant) {
      bytes += static_cast<int64_t>(next.TotalBytes());
      continue;
    }
    for (const Variant& variant : next.flat<Variant>()) {
      bytes += static_cast<int64_t>(sizeof(Variant) + variant.metadata.size());
      waiting.insert(waiting.end(), variant.tensors.begin(), variant.tensors.end());
    }
  }
  return bytes;
}

}  // namespace

CheckpointReader::CheckpointReader(std::unique_ptr<const checkpoint::ReaderImpl> impl) : impl_(std::move(impl)) {}
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

absl::StatusOr<CheckpointReader> CheckpointReader::Open(const std::string& path,
                                                        const CheckpointReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(std::string prefix, checkpoint::PrefixOfPath(path));
  ReadOptions read_index;
  read_index.file_system = options.read.file_system;
  absl::StatusOr<std::shared_ptr<const ByteSource>> index = OpenFileSource(checkpoint::IndexPath(prefix), read_index);
  if (absl::IsNotFound(index.status())) {
    absl::StatusOr<std::shared_ptr<const ByteSource>> file = OpenFileSource(path, options.read);
    if (!file.ok()) return index.status();
    CASK_ASSIGN_OR_RETURN(std::unique_ptr<const checkpoint::ReaderImpl> v1,
                          checkpoint::OpenV1Checkpoint(*std::move(file), options));
    return CheckpointReader(std::move(v1));
  }
  if (!index.ok()) return index.status();
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<const checkpoint::ReaderImpl> bundle,
                        checkpoint::OpenBundle(std::move(prefix), *std::move(index), options));
  return CheckpointReader(std::move(bundle));
}

const std::string& CheckpointReader::prefix() const { return impl_->prefix(); }
int CheckpointReader::num_shards() const { return impl_->num_shards(); }

std::string CheckpointReader::DataPath(int shard) const {
  CASK_CHECK(shard >= 0 && shard < num_shards(), "CheckpointReader::DataPath: no such shard");
  return impl_->DataPath(shard);
}

absl::StatusOr<std::vector<CheckpointEntry>> CheckpointReader::entries() const { return impl_->entries(); }
absl::StatusOr<CheckpointEntry> CheckpointReader::Find(absl::string_view name) const { return impl_->Find(name); }
absl::StatusOr<TensorMetadata> CheckpointReader::Metadata(absl::string_view name) const {
  return impl_->Metadata(name);
}
absl::StatusOr<Tensor> CheckpointReader::Read(absl::string_view name) const { return impl_->Read(name); }
absl::StatusOr<DecodedTensor> CheckpointReader::ReadWithMetadata(absl::string_view name) const {
  return impl_->ReadWithMetadata(name);
}
absl::Status CheckpointReader::ReadInto(absl::string_view name, Tensor* out) const {
  TensorView view = *out;  // on the same buffer
  return impl_->ReadInto(name, &view);
}
absl::Status CheckpointReader::ReadInto(absl::string_view name, TensorView* out) const {
  return impl_->ReadInto(name, out);
}
absl::StatusOr<Tensor> CheckpointReader::ReadSlice(absl::string_view name, const TensorSlice& slice,
                                                   bool verify_whole) const {
  return impl_->ReadSlice(name, slice, verify_whole);
}
absl::Status CheckpointReader::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                                             bool verify_whole) const {
  return impl_->ReadSliceInto(name, slice, out, verify_whole);
}

absl::StatusOr<std::vector<NamedTensor>> CheckpointReader::ReadAll(
    int num_threads, const std::function<bool(const CheckpointEntry&)>& wanted) const {
  CASK_ASSIGN_OR_RETURN(std::vector<CheckpointEntry> entries, impl_->entries());
  if (wanted) {
    entries.erase(std::remove_if(entries.begin(), entries.end(), [&](const auto& entry) { return !wanted(entry); }),
                  entries.end());
  }
  CASK_RETURN_IF_ERROR(CheckDecodedBytes(prefix(), entries, impl_->options().limits.max_file_decoded_bytes));
  std::vector<size_t> order(entries.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(entries[a].shard, entries[a].offset, a) < std::tie(entries[b].shard, entries[b].offset, b);
  });
  std::vector<NamedTensor> tensors(entries.size());
  std::vector<absl::Status> statuses(entries.size());
  // Once one could not be read only those before it are still of interest: which error is returned does not depend on
  // the threads.
  std::atomic<size_t> first_failed{entries.size()};
  const int64_t limit = std::max<int64_t>(impl_->options().limits.max_file_decoded_bytes, 0);
  std::atomic<int64_t> in_variants{0};
  ParallelFor(num_threads, order.size(), [&](size_t i) {
    if (i > first_failed.load(std::memory_order_relaxed)) return;
    const size_t number = order[i];
    absl::StatusOr<Tensor> tensor = impl_->Read(entries[number].name);
    if (tensor.ok() && tensor->dtype() == DType::kVariant) {
      const int64_t bytes = BytesInVariants(*tensor, limit);
      if (in_variants.fetch_add(bytes, std::memory_order_relaxed) > limit - bytes) {
        tensor = absl::ResourceExhaustedError(absl::StrCat(prefix(), ": variants up to tensor ",
                                                           Quoted(entries[number].name),
                                                           " take more bytes than max_file_decoded_bytes ", limit));
      }
    }
    if (tensor.ok()) {
      tensors[number] = {std::move(entries[number].name), *std::move(tensor)};
      return;
    }
    statuses[i] = tensor.status();
    size_t first = first_failed.load(std::memory_order_relaxed);
    while (i < first && !first_failed.compare_exchange_weak(first, i, std::memory_order_relaxed)) {
    }
  });
  for (const absl::Status& status : statuses) CASK_RETURN_IF_ERROR(status);
  return tensors;
}

absl::StatusOr<Tensor> CheckpointReader::Map(absl::string_view name) const { return impl_->Map(name); }
absl::StatusOr<CheckpointCensus> CheckpointReader::VerifyAll(
    absl::FunctionRef<void(const CheckpointDamage&)> report) const {
  return impl_->VerifyAll(report);
}

}  // namespace tensorcask
