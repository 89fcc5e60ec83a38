#include "tensorcask/serialize/checkpoint/read/bundle_reader.h"

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/checkpoint/read/bundle_index.h"
#include "tensorcask/serialize/checkpoint/read/plain_tensor.h"
#include "tensorcask/serialize/checkpoint/read/sliced_tensor.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::checkpoint {
namespace {

class BundleReader final : public ReaderImpl {
 public:
  BundleReader(std::string prefix, std::unique_ptr<const BundleIndex> index,
               std::shared_ptr<const ByteSource> index_file, const CheckpointReaderOptions& options)
      : prefix_(std::move(prefix)),
        options_(options),
        index_(std::move(index)),
        stored_(prefix_, index_.get(), std::move(index_file), &options_),
        sliced_(index_.get(), &stored_, &options_) {}

  const CheckpointReaderOptions& options() const override { return options_; }
  const std::string& prefix() const override { return prefix_; }
  int num_shards() const override { return index_->header().num_shards; }
  std::string DataPath(int shard) const override { return stored_.files().Path(shard); }
  std::shared_ptr<const ByteSource> FileToPlan(int shard) const override { return stored_.files().FileToPlan(shard); }
  std::shared_ptr<const ByteSource> FileSoon(int shard) const override { return stored_.files().FileSoon(shard); }
  void OpenTogether(absl::Span<const int> shards) const override { stored_.files().OpenTogether(shards); }

  ReadPlan::Step PiecesToPlan(absl::string_view name) const override {
    if (!stored_.files().are_planned()) return {};
    const absl::StatusOr<LocatedEntry> located = index_->Locate(name);
    if (!located.ok() || located->index.entry.form != EntryForm::kSliced) return {};
    DecodeQuota decoded = DecodeQuota::ForFile(options_.limits);
    const TensorSlice all = All(*located);
    const absl::StatusOr<std::vector<TensorSlice>> pieces = sliced_.Find(*located, all, &decoded);
    return pieces.ok() ? sliced_.ToPlan(*located, *pieces) : ReadPlan::Step();
  }

  absl::StatusOr<std::vector<CheckpointEntry>> entries() const override { return index_->entries(); }
  absl::Status ForEachEntry(absl::FunctionRef<absl::Status(CheckpointEntry)> fn) const override {
    return index_->ForEachEntry(fn);
  }

  absl::StatusOr<CheckpointEntry> Find(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(LocatedEntry located, index_->Locate(name));
    return index_->Describe(std::move(located));
  }

  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const LocatedEntry located, index_->Locate(name));
    return MetadataOf(located);
  }

  absl::StatusOr<Tensor> Read(absl::string_view name, DecodeQuota* decoded) const override {
    CASK_ASSIGN_OR_RETURN(const LocatedEntry located, index_->Locate(name));
    return ReadWhole(located, decoded);
  }

  absl::StatusOr<Tensor> MemoryFor(absl::string_view name, const RefPtr<Allocator>& allocator,
                                   DecodeQuota* decoded) const override {
    CASK_ASSIGN_OR_RETURN(const LocatedEntry located, index_->Locate(name));
    const CheckpointEntry& entry = located.index.entry;
    if (!stored_.AreBytes(located) || entry.shape.num_elements() == 0) return Tensor();
    CASK_RETURN_IF_ERROR(stored_.OpenReadable(located).status());
    CASK_RETURN_IF_ERROR(stored_.CheckLimit(located, entry.shape, decoded));
    CASK_ASSIGN_OR_ANNOTATE(Tensor memory, Tensor::Create(entry.dtype, entry.shape, allocator), Label(located));
    return memory;
  }

  bool IsReadInPlace(absl::string_view name) const override {
    const absl::StatusOr<LocatedEntry> located = index_->Locate(name);
    return located.ok() && stored_.AreReadInPlace(*located);
  }

  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const LocatedEntry located, index_->Locate(name));
    DecodeQuota decoded = DecodeQuota::ForFile(options_.limits);
    DecodedTensor tensor;
    if (located.index.entry.form == EntryForm::kSliced) {
      CASK_ASSIGN_OR_RETURN(tensor.view, ReadWhole(located, &decoded));
    } else {
      CASK_ASSIGN_OR_RETURN(tensor.view, stored_.ReadAsStored(located, &decoded));
    }
    CASK_ASSIGN_OR_RETURN(tensor.metadata, MetadataOf(located));
    return tensor;
  }

  absl::Status ReadInto(absl::string_view name, TensorView* out) const override {
    CASK_ASSIGN_OR_RETURN(const LocatedEntry located, index_->Locate(name));
    return ReadInto(located, All(located), /*verify_whole=*/false, out);
  }

  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice, bool verify_whole) const override {
    CASK_ASSIGN_OR_RETURN(const LocatedEntry located, index_->Locate(name));
    DecodeQuota decoded = DecodeQuota::ForFile(options_.limits);
    return Read(located, slice, verify_whole, &decoded);
  }

  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                             bool verify_whole) const override {
    CASK_ASSIGN_OR_RETURN(const LocatedEntry located, index_->Locate(name));
    return ReadInto(located, slice, verify_whole, out);
  }

  absl::StatusOr<Tensor> Map(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const LocatedEntry located, index_->Locate(name));
    DecodeQuota decoded = DecodeQuota::ForFile(options_.limits);
    if (located.index.entry.form == EntryForm::kSliced) return ReadWhole(located, &decoded);
    return stored_.Map(located, &decoded);
  }

  absl::StatusOr<std::unique_ptr<ElementStream>> OpenStream(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(LocatedEntry located, index_->Locate(name));
    return stored_.OpenStream(std::move(located));
  }

  absl::StatusOr<CheckpointCounts> VerifyAll(BundleVerifier verify_bundle,
                                             absl::FunctionRef<void(const CheckpointDamage&)> report) const override {
    return verify_bundle(*index_, stored_, options_, report);
  }

 private:
  static TensorSlice All(const LocatedEntry& located) { return TensorSlice::Full(located.index.entry.shape.rank()); }

  std::string Label(const LocatedEntry& located) const { return absl::StrCat(index_->path(), ": ", located.Label()); }

  absl::StatusOr<TensorMetadata> MetadataOf(const LocatedEntry& located) const {
    CASK_ASSIGN_OR_ANNOTATE(TensorMetadata metadata, DecodeMetadata(located.index, options_.limits), Label(located));
    return metadata;
  }

  // The shape of a part. Errors: those of TensorSlice::Apply, naming the tensor.
  absl::StatusOr<TensorShape> ShapeOf(const LocatedEntry& located, const TensorSlice& slice) const {
    CASK_ASSIGN_OR_ANNOTATE(TensorShape shape, slice.Apply(located.index.entry.shape), Label(located));
    return shape;
  }

  // All checks that are possible before memory is allocated. Sets *pieces to those of a sliced tensor.
  absl::Status Prepare(const LocatedEntry& located, const TensorSlice& slice, const TensorShape& shape,
                       DecodeQuota* decoded, std::vector<TensorSlice>* pieces) const {
    if (located.index.entry.form == EntryForm::kSliced) {
      CASK_ASSIGN_OR_RETURN(*pieces, sliced_.Find(located, slice, decoded));
      return absl::OkStatus();
    }
    CASK_RETURN_IF_ERROR(stored_.OpenReadable(located).status());
    return stored_.CheckLimit(located, shape, decoded);
  }

  absl::Status Fill(const LocatedEntry& located, const TensorSlice& slice, const std::vector<TensorSlice>& pieces,
                    bool verify_whole, DecodeQuota* decoded, TensorView* out) const {
    if (located.index.entry.form == EntryForm::kSliced) {
      return sliced_.ReadInto(located, pieces, slice, verify_whole, decoded, out);
    }
    return stored_.ReadSliceInto(located, slice, verify_whole, decoded, out);
  }

  absl::StatusOr<Tensor> ReadWhole(const LocatedEntry& located, DecodeQuota* decoded) const {
    if (located.index.entry.form != EntryForm::kSliced) return stored_.Read(located, decoded);
    return Read(located, All(located), /*verify_whole=*/false, decoded);
  }

  absl::StatusOr<Tensor> Read(const LocatedEntry& located, const TensorSlice& slice, bool verify_whole,
                              DecodeQuota* decoded) const {
    const CheckpointEntry& entry = located.index.entry;
    CASK_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOf(located, slice));
    if (entry.form != EntryForm::kSliced && shape == entry.shape) return stored_.Read(located, decoded);
    std::vector<TensorSlice> pieces;
    CASK_RETURN_IF_ERROR(Prepare(located, slice, shape, decoded, &pieces));
    CASK_ASSIGN_OR_ANNOTATE(Tensor tensor, Tensor::Create(entry.dtype, shape, options_.allocator), Label(located));
    TensorView view = tensor;
    CASK_RETURN_IF_ERROR(Fill(located, slice, pieces, verify_whole, decoded, &view));
    return tensor;
  }

  absl::Status ReadInto(const LocatedEntry& located, const TensorSlice& slice, bool verify_whole,
                        TensorView* out) const {
    const CheckpointEntry& entry = located.index.entry;
    CASK_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOf(located, slice));
    std::vector<TensorSlice> pieces;
    DecodeQuota decoded = DecodeQuota::ForFile(options_.limits);
    CASK_RETURN_IF_ERROR(Prepare(located, slice, shape, &decoded, &pieces));
    if (out->dtype() != entry.dtype || out->dims() != absl::Span<const int64_t>(shape.dims())) {
      return absl::InvalidArgumentError(absl::StrCat(Label(located), " is ", DTypeName(entry.dtype), " ",
                                                     shape.ToString(), "; the tensor to fill is ",
                                                     DTypeName(out->dtype()), " ", out->shape().ToString()));
    }
    const auto fill = [&](TensorView* target) -> absl::Status {
      absl::Status writable = target->CheckWritable();
      if (writable.ok() && !internal::IsOnDevice(*target)) writable = target->EnsureMutable();
      if (!writable.ok()) return Annotate(writable, Label(located));
      return Fill(located, slice, pieces, verify_whole, &decoded, target);
    };
    return stored_.AreBytes(located) ? fill(out) : internal::FillThroughHost(out, fill);
  }

  const std::string prefix_;
  const CheckpointReaderOptions options_;
  const std::unique_ptr<const BundleIndex> index_;
  const StoredTensors stored_;
  const SlicedTensors sliced_;
};

// The base that an index names. It is opened when a delta first needs it.
class NamedBase final : public BaseLookup {
 public:
  // `options` are those of the reader of the deltas.
  NamedBase(std::string prefix, const CheckpointReaderOptions& options) : prefix_(std::move(prefix)) {
    options_.read = options.read;
    options_.verify = options.verify;
    options_.limits = options.limits;
  }

  absl::StatusOr<Info> FindBase(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const ReaderImpl* const reader, Opened());
    return reader->FindBase(name);
  }
  absl::StatusOr<std::shared_ptr<const BaseTensor>> ReadBase(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const ReaderImpl* const reader, Opened());
    return reader->ReadBase(name);
  }
  std::string base_description() const override { return prefix_; }
  std::optional<Location> base_location() const override { return Location{options_.read.file_system, prefix_}; }

 private:
  absl::StatusOr<const ReaderImpl*> Opened() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (reader_ != nullptr) return reader_.get();
    absl::StatusOr<std::unique_ptr<ReaderImpl>> reader = Open();
    const absl::Status& status = reader.status();
    if (absl::IsNotFound(status)) {
      return absl::FailedPreconditionError(absl::StrCat("it is stored as a delta to ", prefix_, ", which is missing; ",
                                                        "name the base if it is elsewhere (the option `base`)"));
    }
    if (absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
        absl::IsUnimplemented(status)) {
      return absl::FailedPreconditionError(
          absl::StrCat("it is stored as a delta to ", prefix_, ", which cannot be opened: ", status.message()));
    }
    CASK_RETURN_IF_ERROR(status);
    reader_ = *std::move(reader);
    return reader_.get();
  }

  absl::StatusOr<std::unique_ptr<ReaderImpl>> Open() const {
    ReadOptions read_index = options_.read;
    read_index.strategy = ReadStrategy::kRead;
    CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> index, OpenFileSource(IndexPath(prefix_), read_index));
    return OpenBundle(prefix_, std::move(index), options_);
  }

  const std::string prefix_;
  CheckpointReaderOptions options_;  // never changes
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const ReaderImpl> reader_;  // null: not opened yet
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReaderImpl>> OpenBundle(std::string prefix, std::shared_ptr<const ByteSource> index,
                                                       CheckpointReaderOptions options) {
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<const BundleIndex> opened, BundleIndex::Open(index, options.limits));
  // Deltas have a depth of one: the base opens no base of its own.
  if (const std::string& base = opened->header().base; options.base == nullptr && !base.empty()) {
    options.base = std::make_shared<const NamedBase>(PrefixBeside(prefix, base), options);
  }
  return std::unique_ptr<ReaderImpl>(new BundleReader(std::move(prefix), std::move(opened), std::move(index), options));
}

}  // namespace tensorcask::checkpoint
