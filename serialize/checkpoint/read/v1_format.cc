#include "tensorcask/serialize/checkpoint/read/v1_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/message_parts.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/protowire/message_rules.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/message/tensor_decoder.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::checkpoint {
namespace {

using Field = WireReader::Field;
using Kind = internal::FieldRule::Kind;
using internal::FieldRule;
using internal::kAnyDepth;
using internal::MessageRules;

// tensorflow/core/util/saved_tensor_slice.proto.
constexpr FieldRule kTensorMetaFields[] = {{1, "name", Kind::kUtf8},
                                           {2, "shape", Kind::kMessage, &internal::kShapeRules},
                                           {3, "type", Kind::kVarint},
                                           {4, "slice", Kind::kMessage, &internal::kSliceRules}};
const MessageRules kTensorMetaRules = {kTensorMetaFields};
constexpr FieldRule kMetaFields[] = {{1, "tensor", Kind::kMessage, &kTensorMetaRules},
                                     {2, "versions", Kind::kMessage, &kVersionRules}};
const MessageRules kMetaRules = {kMetaFields};
constexpr FieldRule kPieceFields[] = {{1, "name", Kind::kUtf8},
                                      {2, "slice", Kind::kMessage, &internal::kSliceRules},
                                      {3, "data", Kind::kMessage, &internal::kTensorRules}};
const MessageRules kPieceRules = {kPieceFields};
constexpr FieldRule kSavedFields[] = {{1, "meta", Kind::kMessage, &kMetaRules},
                                      {2, "data", Kind::kMessage, &kPieceRules}};
const MessageRules kSavedRules = {kSavedFields};

constexpr int kV1ConsumerVersion = 1;
constexpr uint32_t kMeta = 1;  // fields of SavedTensorSlices
constexpr uint32_t kPiece = 2;

// Any error in a message is damage of the file.
absl::Status AsDamage(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsOutOfRange(status) ? absl::DataLossError(status.message()) : status;
}

// The one field `number` of a message that has passed CheckMessage. protobuf would merge several; no writer makes them.
absl::StatusOr<absl::string_view> OnlyField(absl::string_view message, uint32_t number, absl::string_view name) {
  std::optional<absl::string_view> found;
  int count = 0;
  WireReader reader(message, kAnyDepth);
  Field field;
  while (reader.Next(&field)) {
    if (field.number != number) continue;
    found = field.bytes;
    ++count;
  }
  if (count == 1) return *found;
  return absl::DataLossError(absl::StrCat("has ", count == 0 ? "no " : "several of ", name));
}

// The part `number` of the SavedTensorSlices in `value`, checked throughout.
absl::StatusOr<absl::string_view> PartOf(absl::string_view value, uint32_t number, const DecodeLimits& limits) {
  const absl::Status status = internal::CheckMessage(value, kSavedRules, limits.max_depth);
  if (absl::IsResourceExhausted(status)) return status;
  if (!status.ok()) return AsDamage(Annotate(status, "is not a SavedTensorSlices message"));
  return OnlyField(value, number, number == kMeta ? "meta" : "data");
}

absl::StatusOr<TensorSlice> SliceFrom(absl::string_view message) {
  CASK_ASSIGN_OR_ANNOTATE(TensorSlice slice, DecodeSlice(message), "slice");
  return slice;
}

// Checks the versions of a SavedTensorSliceMeta.
absl::Status CheckVersionsIn(absl::string_view meta) {
  Versions versions;
  WireReader reader(meta, kAnyDepth);
  Field field;
  while (reader.Next(&field)) {
    if (field.number == 2) CASK_RETURN_IF_ERROR(MergeVersions(field.bytes, kV1ConsumerVersion, &versions));
  }
  CASK_RETURN_IF_ERROR(CheckVersions(versions, kV1ConsumerVersion));
  if (versions.producer >= 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("has producer ", versions.producer, "; wanted 0 or more"));
}

// What a SavedSliceMeta says. Views of the message.
struct TensorMeta {
  absl::string_view name;
  internal::ShapeFields shape;
  int64_t type = 0;
  uint64_t num_slices = 0;
};

TensorMeta MetaFrom(absl::string_view message) {
  TensorMeta meta;
  WireReader reader(message, kAnyDepth);
  Field field;
  while (reader.Next(&field)) {
    if (field.number == 1) meta.name = field.bytes;
    if (field.number == 2) internal::MergeShape(field.bytes, &meta.shape);
    if (field.number == 3) meta.type = static_cast<int64_t>(field.value);
    if (field.number == 4) ++meta.num_slices;
  }
  return meta;
}

absl::StatusOr<DType> DTypeFrom(int64_t number) {
  const std::optional<DType> dtype = number < kFirstOwnDTypeNumber ? DTypeFromNumber(number) : std::nullopt;
  if (dtype.has_value() && (IsFixedSize(*dtype) || *dtype == DType::kString)) return *dtype;
  return absl::DataLossError(absl::StrCat("has dtype number ", number, ", which V1 checkpoints do not hold"));
}

// Bounds the memory for the tensors of a meta message, in which a few bytes can expand to many.
class MetaQuota {
 public:
  MetaQuota(uint64_t message_bytes, const DecodeLimits& limits, DecodeQuota* file)
      : limits_(limits), memory_(DecodeQuota::ForUnbacked(limits, 2 * message_bytes)), file_(file) {}

  absl::Status Charge(const TensorMeta& meta) {
    num_entries_ += 1 + meta.num_slices;
    if (num_entries_ > LimitOf(limits_.max_entries)) {
      return PastLimit("has more tensors and pieces", "max_entries", limits_.max_entries);
    }
    if (meta.name.size() > LimitOf(limits_.max_name_bytes)) {
      return PastLimit(absl::StrCat("the name of tensor ", Quoted(meta.name), " has ", meta.name.size(), " bytes"),
                       "max_name_bytes", limits_.max_name_bytes);
    }
    // No sum here wraps: each is some thousand times the message at most.
    const uint64_t axes = std::min<uint64_t>(meta.shape.num_axes, TensorShape::kMaxRank);
    uint64_t bytes = sizeof(V1Tensor) + meta.name.size() + sizeof(int64_t) * axes;
    // Twice: the set of slices grows by doubling, and keeps a box for each few of them.
    bytes += meta.num_slices * 2 * (sizeof(TensorSliceSet::Part) + sizeof(TensorSlice::Extent) * axes);
    // A walk over the pieces holds the keys of all pieces of one tensor, each with the name.
    bytes += meta.num_slices * meta.name.size();
    absl::Status status = memory_.Charge(bytes);
    if (status.ok() && file_ != nullptr) status = file_->Charge(bytes);
    return status.ok() ? status : Annotate(status, "its list of tensors");
  }

 private:
  const DecodeLimits& limits_;
  DecodeQuota memory_;       // compared with the message
  DecodeQuota* const file_;  // compared with the file, in which the message may be compressed; may be null
  uint64_t num_entries_ = 0;
};

absl::StatusOr<V1Tensor> TensorFrom(const TensorMeta& meta, absl::string_view message) {
  CASK_ASSIGN_OR_RETURN(const DType dtype, DTypeFrom(meta.type));
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, internal::ShapeFromFields(meta.shape, /*lenient=*/false));
  V1Tensor tensor = {std::string(meta.name), TensorSliceSet(dtype, shape)};
  WireReader reader(message, kAnyDepth);
  Field field;
  while (reader.Next(&field)) {
    if (field.number != 4) continue;
    CASK_ASSIGN_OR_RETURN(const TensorSlice slice, SliceFrom(field.bytes));
    CASK_RETURN_IF_ERROR(tensor.pieces.Register(slice, ""));
  }
  if (tensor.pieces.parts().empty()) return absl::DataLossError("has no slice");
  return tensor;
}

// Reads the value of a piece after checking that it is the piece `slice`.
absl::Status ReadPiece(absl::string_view value, const V1Tensor& tensor, const TensorSlice& slice,
                       const DecodeLimits& limits, internal::WireTensorFields* fields) {
  CASK_ASSIGN_OR_RETURN(const absl::string_view piece, PartOf(value, kPiece, limits));
  CASK_ASSIGN_OR_RETURN(const absl::string_view name, OnlyField(piece, 1, "name"));
  CASK_ASSIGN_OR_RETURN(const absl::string_view slice_message, OnlyField(piece, 2, "slice"));
  CASK_ASSIGN_OR_RETURN(const absl::string_view data, OnlyField(piece, 3, "data"));
  CASK_ASSIGN_OR_RETURN(const TensorSlice named, SliceFrom(slice_message));
  if (name != tensor.name || named != slice) {
    return absl::DataLossError(absl::StrCat("says that it is piece \"", named.ToString(), "\" of ", Quoted(name)));
  }
  CASK_RETURN_IF_ERROR(fields->Read(data, limits.max_depth));
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(tensor.pieces.shape()));
  const DType dtype = tensor.pieces.dtype();
  // The values are those of typed fields alone; dtype and shape come from the meta message.
  if (!fields->content.empty())
    return absl::DataLossError("has tensor_content; a V1 file stores values in typed fields");
  if (fields->dtype != 0 && fields->dtype != static_cast<int32_t>(dtype)) {
    return absl::DataLossError(
        absl::StrCat("has dtype number ", fields->dtype, ", but the tensor is ", DTypeName(dtype)));
  }
  if (fields->shape.num_axes != 0 || fields->shape.unknown_rank) {
    CASK_ASSIGN_OR_RETURN(const TensorShape own, internal::ShapeFromFields(fields->shape, /*lenient=*/false));
    if (own != shape) {
      return absl::DataLossError(absl::StrCat("has shape ", own.ToString(), ", but the piece is ", shape.ToString()));
    }
  } else {
    for (const int64_t dim : shape.dims()) fields->shape.Add(dim);
  }
  fields->dtype = static_cast<int32_t>(dtype);
  static const auto& no_extension = *new internal::ExtensionFields();
  fields->extension = no_extension;  // V1 files have none, and TensorFlow skips it

  // In a TensorProto the last value may be repeated for the elements after it; in V1 each element has its own value.
  uint64_t found = 0;
  for (uint32_t number = internal::kFirstValueField; number <= internal::kLastValueField; ++number) {
    found += fields->count(static_cast<internal::ValueField>(number));
  }
  const uint64_t per_element = IsComplex(dtype) ? 2 : 1;
  if (found % per_element != 0 || found / per_element != static_cast<uint64_t>(shape.num_elements())) {
    return absl::DataLossError(absl::StrCat("has ", found, " values; ", DTypeName(dtype), " ", shape.ToString(),
                                            " needs ", shape.num_elements(), per_element == 1 ? "" : " times two"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<V1Tensor>> DecodeV1Meta(absl::string_view value, const DecodeLimits& limits,
                                                   DecodeQuota* memory) {
  const absl::StatusOr<absl::string_view> meta = PartOf(value, kMeta, limits);
  if (!meta.ok()) {
    return AppendToMessage(meta.status(), " (the index of a checkpoint is opened by its path, which ends in .index)");
  }
  // The versions come first: a newer writer may have changed the meaning of everything else.
  CASK_RETURN_IF_ERROR(CheckVersionsIn(*meta));
  std::vector<V1Tensor> tensors;
  MetaQuota quota(meta->size(), limits, memory);
  WireReader reader(*meta, kAnyDepth);
  Field field;
  while (reader.Next(&field)) {
    if (field.number != 1) continue;
    const TensorMeta tensor_meta = MetaFrom(field.bytes);
    CASK_RETURN_IF_ERROR(quota.Charge(tensor_meta));
    if (tensor_meta.name.empty()) return absl::DataLossError("lists a tensor without a name");
    absl::StatusOr<V1Tensor> tensor = TensorFrom(tensor_meta, field.bytes);
    if (!tensor.ok()) return AsDamage(Annotate(tensor.status(), absl::StrCat("tensor ", Quoted(tensor_meta.name))));
    tensors.push_back(*std::move(tensor));
  }
  const auto before = [](const V1Tensor& a, const V1Tensor& b) { return a.name < b.name; };
  std::sort(tensors.begin(), tensors.end(), before);
  const auto twice = std::adjacent_find(tensors.begin(), tensors.end(),
                                        [](const V1Tensor& a, const V1Tensor& b) { return a.name == b.name; });
  if (twice == tensors.end()) return tensors;
  return absl::DataLossError(absl::StrCat("tensor ", Quoted(twice->name), " is listed twice"));
}

absl::Status CheckV1Piece(absl::string_view value, const V1Tensor& tensor, const TensorSlice& slice,
                          const DecodeLimits& limits) {
  DecodeOptions options;
  options.limits = limits;
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(AsDamage(ReadPiece(value, tensor, slice, limits, &fields)));
  return AsDamage(internal::TensorDecoder(fields, options).Check());
}

absl::StatusOr<Tensor> DecodeV1Piece(absl::string_view value, const V1Tensor& tensor, const TensorSlice& slice,
                                     const DecodeOptions& options) {
  internal::WireTensorFields fields;
  CASK_RETURN_IF_ERROR(AsDamage(ReadPiece(value, tensor, slice, options.limits, &fields)));
  absl::StatusOr<Tensor> decoded = internal::TensorDecoder(fields, options).Decode();
  if (!decoded.ok()) return AsDamage(decoded.status());
  return decoded;
}

}  // namespace tensorcask::checkpoint
