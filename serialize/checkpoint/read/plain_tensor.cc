#include "tensorcask/serialize/checkpoint/read/plain_tensor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/decoded_bytes.h"
#include "tensorcask/serialize/checkpoint/format/stored_variants.h"
#include "tensorcask/serialize/checkpoint/format/string_codec.h"
#include "tensorcask/serialize/checkpoint/read/encoded_tensor.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/base/checksum.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::checkpoint {

StoredTensors::StoredTensors(const std::string& prefix, const BundleIndex* index,
                             std::shared_ptr<const ByteSource> index_file, const CheckpointReaderOptions* options)
    : index_(index),
      options_(options),
      files_(prefix, index->header().num_shards, std::move(index_file), options->read) {}

std::string StoredTensors::Place(const LocatedEntry& located) const {
  const CheckpointEntry& entry = located.index.entry;
  return absl::StrCat(files_.Path(entry.shard), ": ", located.Label(), " at offset ", entry.offset, ", ",
                      entry.stored_bytes, entry.stored_bytes == 1 ? " byte" : " bytes");
}

absl::Status StoredTensors::Annotated(const absl::Status& result, const LocatedEntry& located) const {
  return result.ok() ? result : Annotate(result, Place(located));
}

bool StoredTensors::MustVerify(const LocatedEntry& located) const {
  return stored::MustVerify(PlaceOf(located), ForElements());
}

void StoredTensors::SetVerified(const LocatedEntry& located) const { verified_.Add(PlaceOf(located).storage_id); }

// ---- Before anything is read ----------------------------------------------------------------------------------------

absl::StatusOr<StoredTensors::File> StoredTensors::FileOf(const LocatedEntry& located) const {
  CASK_ASSIGN_OR_ANNOTATE(File file, files_.FileOf(located.index.entry), located.Label());
  return file;
}

absl::StatusOr<StoredTensors::File> StoredTensors::OpenReadable(const LocatedEntry& located) const {
  const CheckpointEntry& entry = located.index.entry;
  std::string reason;
  if (entry.form == EntryForm::kUnknown) {
    reason = absl::StrCat("has dtype number ", located.index.dtype_number, ", which this version does not know");
  } else if (!located.index.readable.ok()) {
    reason = absl::StrCat("is stored encoded: ", located.index.readable.message());
  } else if (entry.dtype == DType::kResource) {
    reason = "is of dtype resource, which no checkpoint can hold";
  } else if (entry.dtype == DType::kVariant && index_->header().big_endian) {
    reason = "is of dtype variant and from a big-endian machine, which this version does not read";
  }
  if (!reason.empty()) {
    return absl::UnimplementedError(absl::StrCat(index_->path(), ": ", located.Label(), " ", reason));
  }
  const uint64_t most = MaxDecodedBytes(entry.stored_bytes, options_->limits);
  if (entry.payload != nullptr && entry.payload->decoded_bytes() > most) {
    return PastLimit(absl::StrCat(Place(located), ": decodes to ", entry.payload->decoded_bytes(),
                                  " bytes, more than max_expansion times what is stored"),
                     "max_expansion", options_->limits.max_expansion);
  }
  return FileOf(located);
}

absl::Status StoredTensors::CheckLimit(const LocatedEntry& located, const TensorShape& shape,
                                       DecodeQuota* decoded) const {
  const CheckpointEntry& entry = located.index.entry;
  const int64_t elements = IsObject(entry.dtype) ? entry.shape.num_elements() : shape.num_elements();
  const absl::Status status = decoded->Charge(DecodedSize(entry.dtype, elements, entry.content_bytes()));
  return status.ok() ? status : Annotate(status, Place(located));
}

// ---- Elements of fixed size -----------------------------------------------------------------------------------------

stored::StoredTensor StoredTensors::PlaceOf(const LocatedEntry& located) const {
  const CheckpointEntry& entry = located.index.entry;
  stored::StoredTensor tensor;
  tensor.dtype = entry.payload == nullptr ? entry.dtype : DType::kUint8;
  tensor.shape = entry.shape;
  tensor.offset = entry.offset;
  tensor.stored_bytes = entry.stored_bytes;
  tensor.big_endian = index_->header().big_endian;
  tensor.layout = located.index.layout;
  tensor.checksum = {ChecksumKind::kMaskedCrc32c, entry.masked_crc32c};
  tensor.storage_id = reinterpret_cast<uintptr_t>(located.id);
  return tensor;
}

stored::ElementOptions StoredTensors::ForElements() const {
  stored::ElementOptions options;
  options.verify = options_->verify != tensorcask::Verify::kNever;
  options.verified = &verified_;
  options.strategy = options_->read.strategy;
  options.num_threads = options_->read.num_threads;
  options.allocator = options_->allocator;
  return options;
}

absl::Status StoredTensors::VerifyBytes(const LocatedEntry& located) const {
  CASK_ASSIGN_OR_RETURN(const File file, FileOf(located));
  return Annotated(stored::VerifyElements(*file, PlaceOf(located), ForElements()), located);
}

// ---- Strings and variants -------------------------------------------------------------------------------------------

// Reads and checks the whole entry, then asks for the tensor to fill; no element is decoded before that. If the tensor
// is null, nothing is filled.
absl::Status StoredTensors::ReadObjects(const LocatedEntry& located, bool verify, DecodeQuota* decoded,
                                        absl::FunctionRef<absl::StatusOr<Tensor*>()> target) const {
  const CheckpointEntry& entry = located.index.entry;
  CASK_ASSIGN_OR_RETURN(const File file, FileOf(located));
  const auto count = static_cast<uint64_t>(entry.shape.num_elements());
  const absl::Status status = [&]() -> absl::Status {
    CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> buffer, TensorBuffer::Allocate(entry.stored_bytes));
    CASK_RETURN_IF_ERROR(
        file->ReadAt(entry.offset, absl::MakeSpan(static_cast<char*>(buffer->mutable_data()), entry.stored_bytes)));
    if (entry.dtype == DType::kString) {
      const ByteOrder order = index_->header().big_endian ? ByteOrder::kBig : ByteOrder::kLittle;
      CASK_ASSIGN_OR_RETURN(const StoredStrings strings, ParseStrings(buffer->bytes(), count, verify, order));
      if (verify) CASK_RETURN_IF_ERROR(stored::CompareChecksum(PlaceOf(located), strings.crc));
      CASK_ASSIGN_OR_RETURN(Tensor* const tensor, target());
      if (tensor != nullptr && count > 0) CopyStrings(strings, tensor->mutable_data<std::string>());
      return absl::OkStatus();
    }
    CASK_ASSIGN_OR_RETURN(const StoredVariants variants, ParseVariants(buffer->bytes(), count, verify));
    if (verify) CASK_RETURN_IF_ERROR(stored::CompareChecksum(PlaceOf(located), variants.crc));
    CASK_ASSIGN_OR_RETURN(Tensor * tensor, target());
    Tensor checked;  // only decoding shows whether the messages are valid
    if (tensor == nullptr) {
      CASK_ASSIGN_OR_RETURN(checked, Tensor::Create(entry.dtype, entry.shape));
      tensor = &checked;
    }
    DecodeOptions options;
    options.limits = options_->limits;
    options.allocator = options_->allocator;
    return count == 0 ? absl::OkStatus() : DecodeVariants(variants, options, decoded, tensor->mutable_data<Variant>());
  }();
  if (!status.ok()) return Annotate(status, Place(located));
  if (verify) SetVerified(located);
  return absl::OkStatus();
}

absl::Status StoredTensors::ReadObjectsInto(const LocatedEntry& located, const TensorSlice* slice, DecodeQuota* decoded,
                                            TensorView* out) const {
  const CheckpointEntry& entry = located.index.entry;
  Tensor whole;
  const bool in_place = slice == nullptr && out->IsContiguous() && entry.dtype == DType::kString;
  CASK_RETURN_IF_ERROR(ReadObjects(located, MustVerify(located), decoded, [&]() -> absl::StatusOr<Tensor*> {
    if (in_place) {
      CASK_ASSIGN_OR_RETURN(whole, out->ToTensor());
      CASK_RETURN_IF_ERROR(whole.EnsureMutable());
    } else {
      CASK_ASSIGN_OR_RETURN(whole, Tensor::Create(entry.dtype, entry.shape));
    }
    return &whole;
  }));
  if (in_place) return absl::OkStatus();
  TensorView part = whole;
  if (slice != nullptr) {
    CASK_ASSIGN_OR_RETURN(part, part.Slice(*slice));
  }
  const absl::Status copied = Copy(part, out);
  return copied.ok() ? copied : Annotate(copied, Place(located));
}

// ---- Encoded --------------------------------------------------------------------------------------------------------

absl::Status StoredTensors::ReadEncoded(const LocatedEntry& located, const TensorSlice* slice, bool verify_whole,
                                        TensorView* out) const {
  const CheckpointEntry& entry = located.index.entry;
  if (verify_whole && MustVerify(located)) {
    absl::Status first;
    const absl::Status last = VerifyChunks(located, [&](const absl::Status& damage) { first.Update(damage); });
    first.Update(last);
    CASK_RETURN_IF_ERROR(first);
    SetVerified(located);
  }
  CASK_ASSIGN_OR_RETURN(const File file, FileOf(located));
  const absl::Status status = [&]() -> absl::Status {
    CASK_ASSIGN_OR_RETURN(PayloadReader payload, OpenPayload(file, entry, *options_));
    CASK_RETURN_IF_ERROR(payload.SetBase(options_->base.get(), entry.name));
    const TensorSlice all = TensorSlice::Full(entry.shape.rank());
    return InFile(payload.ReadSliceInto(entry.shape, slice != nullptr ? *slice : all, out));
  }();
  return status.ok() ? status : Annotate(status, Place(located));
}

absl::Status StoredTensors::VerifyChunks(const LocatedEntry& located,
                                         absl::FunctionRef<void(const absl::Status& damage)> report) const {
  CASK_ASSIGN_OR_RETURN(const File file, FileOf(located));
  const absl::Status status = [&]() -> absl::Status {
    CASK_ASSIGN_OR_RETURN(const PayloadReader payload, OpenPayload(file, located.index.entry, *options_));
    return InFile(
        payload.Verify([&](const absl::Status& damage) { report(Annotate(InFile(damage), Place(located))); }));
  }();
  return status.ok() ? status : Annotate(status, Place(located));
}

absl::StatusOr<bool> StoredTensors::CheckBase(const LocatedEntry& located) const {
  const CheckpointEntry& entry = located.index.entry;
  if (entry.payload == nullptr || !entry.payload->is_delta) return true;
  if (options_->base == nullptr) return false;
  CASK_ASSIGN_OR_RETURN(const File file, FileOf(located));
  const absl::Status status = [&]() -> absl::Status {
    CASK_ASSIGN_OR_RETURN(PayloadReader payload, OpenPayload(file, entry, *options_));
    return payload.SetBase(options_->base.get(), entry.name);
  }();
  if (!status.ok()) return Annotate(status, Place(located));
  return true;
}

// ---- All of them ----------------------------------------------------------------------------------------------------

absl::StatusOr<Tensor> StoredTensors::Read(const LocatedEntry& located, DecodeQuota* decoded) const {
  const CheckpointEntry& entry = located.index.entry;
  CASK_ASSIGN_OR_RETURN(const File file, OpenReadable(located));
  CASK_RETURN_IF_ERROR(CheckLimit(located, entry.shape, decoded));
  if (AreBytes(located)) return Annotated(stored::ReadElements(*file, PlaceOf(located), ForElements()), located);
  if (entry.form == EntryForm::kEncoded) {
    CASK_ASSIGN_OR_ANNOTATE(Tensor memory, Tensor::Create(entry.dtype, entry.shape, options_->allocator),
                            Place(located));
    TensorView view = memory;
    CASK_RETURN_IF_ERROR(ReadEncoded(located, nullptr, /*verify_whole=*/false, &view));
    return memory;
  }
  Tensor tensor;
  CASK_RETURN_IF_ERROR(ReadObjects(located, MustVerify(located), decoded, [&]() -> absl::StatusOr<Tensor*> {
    CASK_ASSIGN_OR_RETURN(tensor, Tensor::Create(entry.dtype, entry.shape, options_->allocator));
    return &tensor;
  }));
  return tensor;
}

bool StoredTensors::AreBytes(const LocatedEntry& located) const {
  const CheckpointEntry& entry = located.index.entry;
  return (entry.form == EntryForm::kPlain || entry.form == EntryForm::kExtensionOnly) && !IsObject(entry.dtype);
}

bool StoredTensors::AreReadInPlace(const LocatedEntry& located) const {
  return AreBytes(located) && stored::AreReadInPlace(PlaceOf(located));
}

absl::StatusOr<TensorView> StoredTensors::ReadAsStored(const LocatedEntry& located, DecodeQuota* decoded) const {
  if (!located.index.layout.has_value()) return Read(located, decoded);
  CASK_ASSIGN_OR_RETURN(const File file, OpenReadable(located));
  CASK_RETURN_IF_ERROR(CheckLimit(located, located.index.entry.shape, decoded));
  return Annotated(stored::ReadElementsAsStored(*file, PlaceOf(located), ForElements()), located);
}

absl::Status StoredTensors::ReadSliceInto(const LocatedEntry& located, const TensorSlice& slice, bool verify_whole,
                                          DecodeQuota* decoded, TensorView* out) const {
  const CheckpointEntry& entry = located.index.entry;
  if (entry.form == EntryForm::kEncoded) return ReadEncoded(located, &slice, verify_whole, out);
  if (IsObject(entry.dtype)) {
    const bool is_all = out->dims() == absl::Span<const int64_t>(entry.shape.dims());
    return ReadObjectsInto(located, is_all ? nullptr : &slice, decoded, out);
  }
  CASK_ASSIGN_OR_RETURN(const File file, FileOf(located));
  const stored::StoredTensor tensor = PlaceOf(located);
  const stored::ElementOptions options = ForElements();
  if (out->num_elements() == entry.shape.num_elements()) {
    return Annotated(stored::ReadElementsInto(*file, tensor, options, out), located);
  }
  if (verify_whole) CASK_RETURN_IF_ERROR(Annotated(stored::VerifyOnce(*file, tensor, options), located));
  return Annotated(stored::ReadSliceOfElementsInto(*file, tensor, slice, options, out), located);
}

absl::StatusOr<Tensor> StoredTensors::Map(const LocatedEntry& located, DecodeQuota* decoded) const {
  if (AreBytes(located) && stored::CanMap(PlaceOf(located))) {
    CASK_ASSIGN_OR_RETURN(const File file, OpenReadable(located));
    absl::StatusOr<Tensor> mapped = stored::MapElements(*file, PlaceOf(located), ForElements());
    if (!absl::IsUnimplemented(mapped.status())) return Annotated(std::move(mapped), located);
  }
  return Read(located, decoded);
}

absl::StatusOr<std::unique_ptr<ElementStream>> StoredTensors::OpenStream(LocatedEntry located) const {
  if (!AreBytes(located)) {
    return absl::UnimplementedError(
        absl::StrCat(index_->path(), ": ", located.Label(), " is not stored as numbers in one piece"));
  }
  CASK_ASSIGN_OR_RETURN(const File file, OpenReadable(located));
  stored::StoredTensor tensor = PlaceOf(located);
  return stored::OpenElements(  // files_ keeps the file
      *file, std::move(tensor), ForElements(),
      [this, located = std::move(located)](const absl::Status& status) { return Annotate(status, Place(located)); });
}

absl::Status StoredTensors::Verify(const LocatedEntry& located,
                                   absl::FunctionRef<void(const absl::Status& damage)> report) const {
  if (located.index.entry.form == EntryForm::kEncoded) {
    bool is_damaged = false;
    CASK_RETURN_IF_ERROR(VerifyChunks(located, [&](const absl::Status& damage) {
      is_damaged = true;
      report(damage);
    }));
    return is_damaged ? absl::OkStatus() : VerifyBytes(located);  // including the bytes between chunks
  }
  if (!IsObject(located.index.entry.dtype)) return VerifyBytes(located);
  DecodeQuota decoded = DecodeQuota::ForFile(options_->limits);
  CASK_RETURN_IF_ERROR(CheckLimit(located, located.index.entry.shape, &decoded));
  return ReadObjects(located, /*verify=*/true, &decoded, [] { return absl::StatusOr<Tensor*>(nullptr); });
}

}  // namespace tensorcask::checkpoint
