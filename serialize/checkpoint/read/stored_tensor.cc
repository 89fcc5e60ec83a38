#include "tensorcask/serialize/checkpoint/read/stored_tensor.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/format/decoded_bytes.h"
#include "tensorcask/serialize/checkpoint/format/stored_variants.h"
#include "tensorcask/serialize/checkpoint/format/string_codec.h"
#include "tensorcask/serialize/checkpoint/read/element_runs.h"
#include "tensorcask/serialize/checkpoint/read/encoded_tensor.h"
#include "tensorcask/serialize/io/internal/decode_quota.h"
#include "tensorcask/serialize/io/internal/piece_buffer.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/row_major.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::checkpoint {
namespace {

// So much is read at a time, and then checked while it is in the second-level cache.
constexpr size_t kBlockBytes = size_t{512} << 10;
constexpr size_t kMaxRanges = 4096;  // asked for at once

}  // namespace

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

bool StoredTensors::MustVerify(const LocatedEntry& located) const {
  if (options_->verify == tensorcask::Verify::kNever) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  return !verified_.contains(located.id);
}

void StoredTensors::SetVerified(const LocatedEntry& located) const {
  if (located.id == nullptr) return;
  std::lock_guard<std::mutex> lock(mutex_);
  verified_.insert(located.id);
}

// ---- Before anything is read ----------------------------------------------------------------------------------------

absl::StatusOr<StoredTensors::File> StoredTensors::FileOf(const LocatedEntry& located) const {
  absl::StatusOr<File> file = files_.FileOf(located.index.entry);
  if (!file.ok()) return Annotate(file.status(), located.Label());
  return file;
}

absl::Status StoredTensors::CheckReadable(const LocatedEntry& located) const {
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
  return FileOf(located).status();
}

absl::Status StoredTensors::CheckLimit(const LocatedEntry& located, const TensorShape& shape,
                                       DecodeQuota* decoded) const {
  const CheckpointEntry& entry = located.index.entry;
  const int64_t elements = IsObject(entry.dtype) ? entry.shape.num_elements() : shape.num_elements();
  const absl::Status status = decoded->Charge(DecodedSize(entry.dtype, elements, entry.content_bytes()));
  return status.ok() ? status : Annotate(status, Place(located));
}

// ---- Elements of fixed size -----------------------------------------------------------------------------------------

void StoredTensors::ToHostOrder(const LocatedEntry& located, absl::Span<char> elements) const {
  if (!index_->header().big_endian) return;
  const DType dtype = located.index.entry.dtype;
  const size_t item_bytes = ElementSize(dtype) / (IsComplex(dtype) ? 2 : 1);
  if (item_bytes > 1) SwapBytes(elements.data(), elements.size() / item_bytes, item_bytes);
}

// All elements in the order in which they are stored.
absl::Status StoredTensors::ReadBytes(const LocatedEntry& located, bool verify, absl::Span<char> out) const {
  CASK_ASSIGN_OR_RETURN(const File file, FileOf(located));
  const absl::Status status = files_.Read(*file, located.index.entry, verify, out);
  if (!status.ok()) return Annotate(status, Place(located));
  if (verify) SetVerified(located);
  ToHostOrder(located, out);
  return absl::OkStatus();
}

// Reads the stored elements that `from` selects to the elements of *out with equal index. With `verify`, `from` selects
// all.
absl::Status StoredTensors::ReadElements(const LocatedEntry& located, const Layout& from, bool verify,
                                         TensorView* out) const {
  const CheckpointEntry& entry = located.index.entry;
  const auto element_bytes = static_cast<int64_t>(ElementSize(entry.dtype));
  Layout sorted_from = from;
  Layout sorted_to = out->layout();
  CASK_RETURN_IF_ERROR(SortAxes(&sorted_from, &sorted_to));
  CASK_ASSIGN_OR_RETURN(TensorView target, TensorView::Create(out->buffer(), out->dtype(), sorted_to));
  if (from.num_elements() == entry.shape.num_elements() && target.IsContiguous()) {
    CASK_RETURN_IF_ERROR(target.EnsureMutable());
    char* const to = static_cast<char*>(target.buffer()->mutable_data()) + target.bounds().begin;
    return ReadBytes(located, verify, absl::MakeSpan(to, entry.stored_bytes));
  }
  CASK_ASSIGN_OR_RETURN(const File file, FileOf(located));
  ByteChecker checker(entry, verify);
  ElementRuns runs(sorted_from);
  std::vector<ReadRange> ranges;
  absl::Status status = FillRowMajorPieces(&target, kBlockBytes, [&](absl::Span<char> block) -> absl::Status {
    for (absl::Span<char> rest = block; !rest.empty();) {
      const ElementRuns::Run run = runs.Next(static_cast<int64_t>(rest.size()) / element_bytes);
      const auto run_bytes = static_cast<size_t>(run.count * element_bytes);
      ranges.push_back({entry.offset + static_cast<uint64_t>(run.first * element_bytes), rest.subspan(0, run_bytes)});
      rest.remove_prefix(run_bytes);
      if (ranges.size() < kMaxRanges && !rest.empty()) continue;
      CASK_RETURN_IF_ERROR(file->ReadRanges(ranges));
      ranges.clear();
    }
    checker.Check(absl::string_view(block.data(), block.size()));
    ToHostOrder(located, block);
    return absl::OkStatus();
  });
  if (status.ok()) status = checker.Finish();
  if (!status.ok()) return Annotate(status, Place(located));
  if (verify) SetVerified(located);
  return absl::OkStatus();
}

absl::Status StoredTensors::VerifyBytes(const LocatedEntry& located) const {
  const CheckpointEntry& entry = located.index.entry;
  CASK_ASSIGN_OR_RETURN(const File file, FileOf(located));
  PieceBuffer block(entry.stored_bytes, kBlockBytes);
  ByteChecker checker(entry, /*verify=*/true);
  for (uint64_t done = 0; done < entry.stored_bytes;) {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(entry.stored_bytes - done, block.size()));
    const absl::Status status = file->ReadAt(entry.offset + done, absl::MakeSpan(block.data(), bytes));
    if (!status.ok()) return Annotate(status, Place(located));
    checker.Check(absl::string_view(block.data(), bytes));
    done += bytes;
  }
  const absl::Status status = checker.Finish();
  if (!status.ok()) return Annotate(status, Place(located));
  SetVerified(located);
  return absl::OkStatus();
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
      if (verify) CASK_RETURN_IF_ERROR(CheckChecksum(entry, strings.crc));
      CASK_ASSIGN_OR_RETURN(Tensor* const tensor, target());
      if (tensor != nullptr && count > 0) CopyStrings(strings, tensor->mutable_data<std::string>());
      return absl::OkStatus();
    }
    CASK_ASSIGN_OR_RETURN(const StoredVariants variants, ParseVariants(buffer->bytes(), count, verify));
    if (verify) CASK_RETURN_IF_ERROR(CheckChecksum(entry, variants.crc));
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

absl::StatusOr<Tensor> StoredTensors::Allocate(const LocatedEntry& located) const {
  const CheckpointEntry& entry = located.index.entry;
  absl::StatusOr<Tensor> tensor = Tensor::Create(entry.dtype, entry.shape, options_->allocator);
  if (!tensor.ok()) return Annotate(tensor.status(), Place(located));
  return tensor;
}

absl::StatusOr<Tensor> StoredTensors::Read(const LocatedEntry& located, DecodeQuota* decoded) const {
  const CheckpointEntry& entry = located.index.entry;
  Tensor tensor;
  if (IsObject(entry.dtype) && entry.form != EntryForm::kEncoded) {
    CASK_RETURN_IF_ERROR(ReadObjects(located, MustVerify(located), decoded, [&]() -> absl::StatusOr<Tensor*> {
      CASK_ASSIGN_OR_RETURN(tensor, Tensor::Create(entry.dtype, entry.shape, options_->allocator));
      return &tensor;
    }));
    return tensor;
  }
  CASK_ASSIGN_OR_RETURN(tensor, Allocate(located));
  TensorView view = tensor;
  CASK_RETURN_IF_ERROR(ReadPart(located, nullptr, /*verify_whole=*/false, decoded, &view));
  return tensor;
}

bool StoredTensors::CanStream(const LocatedEntry& located) {
  const CheckpointEntry& entry = located.index.entry;
  const bool is_stored = entry.form == EntryForm::kPlain || entry.form == EntryForm::kGuarded;
  return is_stored && !IsObject(entry.dtype) && !located.index.layout.has_value() && entry.stored_bytes > 0;
}

absl::StatusOr<Tensor> StoredTensors::ReadToDevice(const LocatedEntry& located,
                                                   const RefPtr<Allocator>& allocator) const {
  const CheckpointEntry& entry = located.index.entry;
  CASK_ASSIGN_OR_RETURN(const File file, FileOf(located));
  absl::StatusOr<Tensor> tensor = Tensor::Create(entry.dtype, entry.shape, allocator);
  if (!tensor.ok()) return Annotate(tensor.status(), Place(located));
  const bool verify = MustVerify(located);
  ByteChecker checker(entry, verify);
  uint64_t offset = entry.offset;
  const auto read = [&](absl::Span<char> piece) -> absl::Status {
    for (absl::Span<char> rest = piece; !rest.empty();) {
      const absl::Span<char> block = rest.first(std::min(rest.size(), kBlockBytes));
      CASK_RETURN_IF_ERROR(file->ReadAt(offset, block));
      checker.Check(absl::string_view(block.data(), block.size()));
      offset += block.size();
      rest.remove_prefix(block.size());
    }
    ToHostOrder(located, piece);
    return absl::OkStatus();
  };
  const absl::Status status = [&]() -> absl::Status {
    CASK_ASSIGN_OR_RETURN(void* const to, tensor->buffer()->MutableDeviceData());
    CASK_RETURN_IF_ERROR(tensor->buffer()->device_memory()->Write(to, entry.stored_bytes, read));
    return checker.Finish();
  }();
  if (!status.ok()) return Annotate(status, Place(located));
  if (verify) SetVerified(located);
  return tensor;
}

absl::StatusOr<TensorView> StoredTensors::ReadAsStored(const LocatedEntry& located, DecodeQuota* decoded) const {
  if (!located.index.layout.has_value()) {
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, Read(located, decoded));
    return TensorView(tensor);
  }
  const CheckpointEntry& entry = located.index.entry;
  CASK_ASSIGN_OR_RETURN(Tensor tensor, Allocate(located));
  CASK_RETURN_IF_ERROR(ReadBytes(located, MustVerify(located), tensor.mutable_bytes()));
  return TensorView::Create(tensor.buffer(), entry.dtype, *located.index.layout);
}

absl::Status StoredTensors::ReadSliceInto(const LocatedEntry& located, const TensorSlice& slice, bool verify_whole,
                                          DecodeQuota* decoded, TensorView* out) const {
  return ReadPart(located, &slice, verify_whole, decoded, out);
}

absl::Status StoredTensors::ReadPart(const LocatedEntry& located, const TensorSlice* slice, bool verify_whole,
                                     DecodeQuota* decoded, TensorView* out) const {
  const CheckpointEntry& entry = located.index.entry;
  if (entry.form == EntryForm::kEncoded) return ReadEncoded(located, slice, verify_whole, out);
  if (IsObject(entry.dtype)) {
    const bool is_all = out->dims() == absl::Span<const int64_t>(entry.shape.dims());
    return ReadObjectsInto(located, is_all ? nullptr : slice, decoded, out);
  }
  if (out->num_elements() == entry.shape.num_elements()) slice = nullptr;
  bool verify = MustVerify(located);
  if (slice != nullptr && verify) {
    if (verify_whole) CASK_RETURN_IF_ERROR(VerifyBytes(located));
    verify = false;
  }
  if (out->num_elements() == 0) return slice == nullptr ? ReadBytes(located, verify, {}) : absl::OkStatus();
  const Layout whole = located.index.layout.value_or(Layout::RowMajor(entry.shape));
  if (slice == nullptr) return ReadElements(located, whole, verify, out);
  CASK_ASSIGN_OR_RETURN(const Layout part, whole.Slice(*slice));
  return ReadElements(located, part, verify, out);
}

absl::StatusOr<Tensor> StoredTensors::Map(const LocatedEntry& located, DecodeQuota* decoded) const {
  const CheckpointEntry& entry = located.index.entry;
  const auto copied = [&]() -> absl::StatusOr<Tensor> {
    CASK_RETURN_IF_ERROR(CheckLimit(located, entry.shape, decoded));
    return Read(located, decoded);
  };
  const bool as_stored = located.index.layout.value_or(Layout::RowMajor(entry.shape)).IsContiguous() &&
                         (!index_->header().big_endian || ElementSize(entry.dtype) == 1);
  if (IsObject(entry.dtype) || entry.form == EntryForm::kEncoded || !as_stored || entry.stored_bytes == 0 ||
      entry.offset % ElementAlignment(entry.dtype) != 0) {
    return copied();
  }
  CASK_ASSIGN_OR_RETURN(const File file, FileOf(located));
  absl::StatusOr<RefPtr<TensorBuffer>> mapped = file->Map(entry.offset, entry.stored_bytes);
  if (absl::IsUnimplemented(mapped.status())) return copied();
  if (!mapped.ok()) return Annotate(mapped.status(), Place(located));
  const bool verify = MustVerify(located);
  ByteChecker checker(entry, verify);
  if (!checker.idle()) {
    checker.Check((*mapped)->bytes());
    const absl::Status status = checker.Finish();
    if (!status.ok()) return Annotate(status, Place(located));
  }
  if (verify) SetVerified(located);
  return Tensor::FromBuffer(entry.dtype, entry.shape, *std::move(mapped));
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
