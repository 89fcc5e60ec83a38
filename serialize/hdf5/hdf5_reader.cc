#include "tensorcask/serialize/hdf5/hdf5_reader.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/hdf5/internal/chunk_elements.h"
#include "tensorcask/serialize/hdf5/internal/directory.h"
#include "tensorcask/serialize/hdf5/internal/file.h"
#include "tensorcask/serialize/hdf5/internal/storage.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/stored/elements.h"
#include "tensorcask/serialize/stored/name_order.h"
#include "tensorcask/serialize/stored/stored_tensor.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/device_elements.h"

namespace tensorcask {
namespace hdf5 {

class ReaderImpl {
 public:
  ReaderImpl(std::shared_ptr<const ByteSource> source, Directory directory, const Hdf5ReaderOptions& options)
      : source_(std::move(source)), directory_(std::move(directory)), limits_(options.limits) {
    how_.strategy = options.read.strategy;
    how_.num_threads = options.read.num_threads;
    how_.allocator = options.allocator;
    entries_.reserve(directory_.datasets.size());
    for (const Dataset& dataset : directory_.datasets) {
      const Storage& storage = dataset.storage;
      Hdf5Entry entry;
      entry.name = dataset.name;
      entry.dtype = dataset.dtype;
      entry.shape = dataset.shape;
      entry.is_chunked = storage.form == Storage::Form::kChunks;
      entry.is_filtered = !storage.filters.empty();
      entry.stored_bytes = storage.stored_bytes;
      if (storage.form == Storage::Form::kPlain && storage.stored_bytes > 0) entry.offset = storage.position;
      entry.storage_id = dataset.address;
      entry.read_status = dataset.status;
      entries_.push_back(std::move(entry));
    }
  }

  const std::shared_ptr<const ByteSource>& source() const { return source_; }
  const Directory& directory() const { return directory_; }
  const std::vector<Hdf5Entry>& entries() const { return entries_; }

  const Hdf5Entry* FindEntry(absl::string_view name) const { return stored::FindByName(entries_, name); }

  // `status`, if it is an error, with the names of file and tensor.
  absl::Status At(const Hdf5Entry& entry, const absl::Status& status) const {
    if (status.ok()) return status;
    return MarkDamagedPart(Annotate(status, absl::StrCat(source_->name(), ": tensor ", Quoted(entry.name))));
  }

  absl::StatusOr<const Hdf5Entry*> FindReadable(absl::string_view name) const {
    const Hdf5Entry* const entry = FindEntry(name);
    if (entry == nullptr) return absl::NotFoundError(absl::StrCat(source_->name(), ": no tensor ", Quoted(name)));
    if (!entry->read_status.ok()) return At(*entry, entry->read_status);
    return entry;
  }

  absl::StatusOr<Tensor> ReadSlice(const Hdf5Entry& entry, const TensorSlice& slice) const {
    CASK_ASSIGN_OR_RETURN(const TensorShape part, slice.Apply(entry.shape));
    CASK_RETURN_IF_ERROR(
        DecodeQuota::ForFile(limits_).Charge(static_cast<uint64_t>(part.num_elements()) * ElementSize(entry.dtype)));
    CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(entry.dtype, part, how_.allocator));
    CASK_RETURN_IF_ERROR(tensor.EnsureMutable());
    TensorView view = tensor;
    CASK_RETURN_IF_ERROR(Fill(entry, slice, &view));
    return tensor;
  }

  absl::Status ReadSliceInto(const Hdf5Entry& entry, const TensorSlice& slice, TensorView* out) const {
    CASK_ASSIGN_OR_RETURN(const TensorShape part, slice.Apply(entry.shape));
    CASK_RETURN_IF_ERROR(stored::CheckTarget(entry.dtype, part, *out));
    return Fill(entry, slice, out);
  }

  absl::StatusOr<Tensor> Map(const Hdf5Entry& entry) const {
    const stored::StoredTensor stored = Stored(DatasetOf(entry));
    if (!entry.offset.has_value() || !stored::CanMap(stored)) {
      return absl::UnimplementedError("elements that cannot be mapped");
    }
    return stored::MapElements(*source_, stored, how_);
  }

 private:
  const Dataset& DatasetOf(const Hdf5Entry& entry) const {
    return directory_.datasets[static_cast<size_t>(&entry - entries_.data())];
  }

  static stored::StoredTensor Stored(const Dataset& dataset) {
    stored::StoredTensor tensor;
    tensor.dtype = dataset.dtype;
    tensor.shape = dataset.shape;
    tensor.offset = dataset.storage.position;
    tensor.stored_bytes = dataset.storage.stored_bytes;
    tensor.big_endian = dataset.big_endian;
    return tensor;
  }

  // Requires: *out has the dtype, and the shape of the slice.
  absl::Status Fill(const Hdf5Entry& entry, const TensorSlice& slice, TensorView* out) const {
    const Dataset& dataset = DatasetOf(entry);
    if (dataset.storage.form == Storage::Form::kPlain) {
      return out->num_elements() == entry.shape.num_elements()
                 ? stored::ReadElementsInto(*source_, Stored(dataset), how_, out)
                 : stored::ReadSliceOfElementsInto(*source_, Stored(dataset), slice, how_, out);
    }
    return internal::FillThroughHost(out, [&](TensorView* target) {
      return ReadChunkElements(source_, {dataset.dtype, dataset.big_endian, &dataset.shape, &dataset.storage}, slice,
                               how_, limits_, target);
    });
  }

  const std::shared_ptr<const ByteSource> source_;
  const Directory directory_;
  const DecodeLimits limits_;
  stored::ElementOptions how_;
  std::vector<Hdf5Entry> entries_;  // for the datasets, in their order
};

}  // namespace hdf5

Hdf5Reader::Hdf5Reader(std::unique_ptr<const hdf5::ReaderImpl> impl) : impl_(std::move(impl)) {}
Hdf5Reader::Hdf5Reader(Hdf5Reader&&) noexcept = default;
Hdf5Reader& Hdf5Reader::operator=(Hdf5Reader&&) noexcept = default;
Hdf5Reader::~Hdf5Reader() = default;

absl::StatusOr<Hdf5Reader> Hdf5Reader::Open(const std::string& path, const Hdf5ReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> source, OpenFileSource(path, options.read));
  return OpenSource(std::move(source), options);
}

absl::StatusOr<Hdf5Reader> Hdf5Reader::OpenSource(std::shared_ptr<const ByteSource> source,
                                                  const Hdf5ReaderOptions& options) {
  const std::shared_ptr<ListingBudget> listing =
      options.listing != nullptr ? options.listing : std::make_shared<ListingBudget>(options.limits);
  CASK_ASSIGN_OR_ANNOTATE(hdf5::Directory directory,
                          hdf5::ReadDirectory(source, options.dtype_of_opaque_elements, options.limits, listing.get()),
                          source->name());
  return Hdf5Reader(std::make_unique<const hdf5::ReaderImpl>(std::move(source), std::move(directory), options));
}

bool Hdf5Reader::LooksLikeHdf5(absl::string_view first_bytes) {
  for (const size_t at : {0, 512, 1024, 2048}) {
    if (at <= first_bytes.size() && absl::StartsWith(first_bytes.substr(at), hdf5::kSignature)) return true;
  }
  return false;
}

const std::string& Hdf5Reader::path() const { return impl_->source()->name(); }
std::shared_ptr<const ByteSource> Hdf5Reader::source() const { return impl_->source(); }
const std::vector<Hdf5Entry>& Hdf5Reader::entries() const { return impl_->entries(); }
const Hdf5Entry* Hdf5Reader::FindEntry(absl::string_view name) const { return impl_->FindEntry(name); }
const ValueTree& Hdf5Reader::value_tree() const { return impl_->directory().values; }
const std::vector<std::string>& Hdf5Reader::notes() const { return impl_->directory().notes; }

absl::StatusOr<Tensor> Hdf5Reader::ReadSlice(absl::string_view name, const TensorSlice& slice) const {
  CASK_ASSIGN_OR_RETURN(const Hdf5Entry* const entry, impl_->FindReadable(name));
  absl::StatusOr<Tensor> tensor = impl_->ReadSlice(*entry, slice);
  if (!tensor.ok()) return impl_->At(*entry, tensor.status());
  return tensor;
}

absl::Status Hdf5Reader::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const Hdf5Entry* const entry, impl_->FindReadable(name));
  return impl_->At(*entry, impl_->ReadSliceInto(*entry, slice, out));
}

absl::StatusOr<Tensor> Hdf5Reader::Read(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const Hdf5Entry* const entry, impl_->FindReadable(name));
  return ReadSlice(name, TensorSlice::Full(entry->shape.rank()));
}

absl::Status Hdf5Reader::ReadInto(absl::string_view name, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const Hdf5Entry* const entry, impl_->FindReadable(name));
  return ReadSliceInto(name, TensorSlice::Full(entry->shape.rank()), out);
}

absl::StatusOr<Tensor> Hdf5Reader::Map(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const Hdf5Entry* const entry, impl_->FindReadable(name));
  absl::StatusOr<Tensor> tensor = impl_->Map(*entry);
  if (absl::IsUnimplemented(tensor.status())) return Read(name);
  if (!tensor.ok()) return impl_->At(*entry, tensor.status());
  return tensor;
}

}  // namespace tensorcask
