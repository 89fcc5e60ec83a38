#include "tensorcask/serialize/checkpoint/entry_codec.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/message_parts.h"
#include "tensorcask/serialize/checkpoint/naming.h"
#include "tensorcask/serialize/checkpoint/status_place.h"
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/layout_decoder.h"
#include "tensorcask/serialize/wire/metadata_decoder.h"
#include "tensorcask/serialize/wire/tensor_fields.h"
#include "tensorcask/serialize/wire/wire_fields.h"
#include "tensorcask/serialize/wire/wire_reader.h"
#include "tensorcask/serialize/wire/wire_rules.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::checkpoint {
namespace {

using Field = WireReader::Field;

constexpr int kMaxDepth = 64;  // of messages in messages; nothing here is deeper than 3

absl::Status DecodeDim(absl::string_view message, int64_t* size) {
  WireReader reader(message);
  Field field;
  while (reader.Next(&field)) {
    if (field.number == 1) CASK_RETURN_IF_ERROR(TakeInt64(field, "shape.dim.size", size));
    if (field.number == 2) CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "shape.dim.name"));
  }
  return reader.status().ok() ? absl::OkStatus() : NoMessage(reader, "a dim");
}

// Adds the dims in `message` to *dims.
absl::Status DecodeDims(absl::string_view message, DimVector* dims) {
  WireReader reader(message);
  Field field;
  while (reader.Next(&field)) {
    if (field.number == 2) {
      CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "shape.dim"));
      if (dims->size() == TensorShape::kMaxRank) {
        return absl::DataLossError(absl::StrCat("its shape has more than ", TensorShape::kMaxRank, " dims"));
      }
      int64_t size = 0;
      CASK_RETURN_IF_ERROR(DecodeDim(field.bytes, &size));
      dims->push_back(size);
    } else if (field.number == 3) {
      int64_t unknown_rank = 0;
      CASK_RETURN_IF_ERROR(TakeInt64(field, "shape.unknown_rank", &unknown_rank));
      if (unknown_rank != 0) return absl::DataLossError("its shape has unknown rank");
    }
  }
  return reader.status().ok() ? absl::OkStatus() : NoMessage(reader, "its shape");
}

// Adds the slice in `message` to those of *entry, whose shape is not known yet.
// `entry_bytes` are those of the message that lists it.
absl::Status AddSlice(absl::string_view message, size_t entry_bytes, CheckpointEntry* entry) {
  CASK_ASSIGN_OR_RETURN(TensorSlice slice, DecodeSlice(message));
  // A slice that tells pieces apart takes some eight bytes in a message; one that says nothing takes two.
  constexpr size_t kFreeBytes = 4096;
  constexpr size_t kSliceExpansion = 16;
  if (entry->slices.size() * sizeof(TensorSlice) > kFreeBytes + kSliceExpansion * entry_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", entry->slices.size(), " slices in ", entry_bytes, " bytes"));
  }
  entry->slices.push_back(std::move(slice));
  return absl::OkStatus();
}

absl::Status CheckSlices(const CheckpointEntry& entry) {
  for (const TensorSlice& slice : entry.slices) {
    const absl::StatusOr<TensorShape> part = slice.Apply(entry.shape);
    if (!part.ok()) return absl::DataLossError(part.status().message());
  }
  return absl::OkStatus();
}

// Merges `message` into *fields and appends it to out->extension.
absl::Status AddExtension(absl::string_view message, internal::WireExtensionFields* fields, IndexEntry* out) {
  const absl::Status status = fields->Read(message, kMaxDepth);
  if (!status.ok()) return absl::DataLossError(absl::StrCat("its extension: ", status.message()));
  out->extension.append(message.data(), message.size());
  const internal::ExtensionFields& extension = fields->extension;
  bool has_attributes = false;
  fields->ForEachAttribute([&](absl::string_view, absl::string_view) {
    has_attributes = true;
    return false;
  });
  out->entry.has_metadata |= has_attributes || !extension.name.empty() || !extension.device.empty() ||
                             extension.memory_format != 0 || extension.requires_grad;
  return absl::OkStatus();
}

// Sets what the head of an encoded entry's payload says. One of a later version is left to the reader of elements.
absl::Status TakePayload(absl::string_view bytes, IndexEntry* out) {
  CheckpointEntry& entry = out->entry;
  if (bytes.size() != kPayloadHeadBytes) {
    return absl::DataLossError(
        absl::StrCat("the head of its payload has ", bytes.size(), " bytes; wanted ", kPayloadHeadBytes));
  }
  absl::StatusOr<PayloadHead> head = PayloadHead::Parse(bytes);
  if (absl::IsUnimplemented(head.status())) {
    out->readable = head.status();
    return absl::OkStatus();
  }
  if (!head.ok()) return absl::DataLossError(absl::StrCat("its ", head.status().message()));
  if (head->dtype != entry.dtype || head->num_elements != static_cast<uint64_t>(entry.shape.num_elements())) {
    return absl::DataLossError(absl::StrCat("its payload has ", head->num_elements, " elements of ",
                                            DTypeName(head->dtype), "; it is ", DTypeName(entry.dtype), " ",
                                            entry.shape.ToString()));
  }
  entry.payload = std::make_shared<const PayloadHead>(*std::move(head));
  return absl::OkStatus();
}

// Sets dtype, form and layout from what the entry's fields say, refusing mixtures of the forms.
absl::Status ChooseForm(const internal::ExtensionFields& extension, IndexEntry* out) {
  CheckpointEntry& entry = out->entry;
  const bool is_sliced = !entry.slices.empty();
  const bool has_layout = extension.num_strides > 0 || extension.storage_offset != 0;
  const bool is_own = out->dtype_number == 0;
  if (!is_own && (extension.dtype != 0 || has_layout || extension.has_payload)) {
    return absl::DataLossError(
        absl::StrCat("it has dtype ", out->dtype_number,
                     " and an extension that wants dtype 0 (of another dtype, layout or coding)"));
  }
  if (is_own && extension.dtype == 0) {
    return absl::DataLossError("it has no dtype, neither of its own nor in an extension");
  }
  if (is_own && is_sliced && (extension.dtype < kFirstOwnDTypeNumber || has_layout || extension.has_payload)) {
    return absl::DataLossError("it has slices, and an extension of another layout or coding or of TensorFlow's dtypes");
  }
  // As in a message (serialize/wire/FORMAT.md section 1).
  const bool is_encoded = extension.has_payload && !has_layout;
  const bool is_guarded =
      !extension.has_payload &&
      (extension.num_strides > 0 || (extension.dtype >= kFirstOwnDTypeNumber && extension.storage_offset == 0));
  if (is_own && (extension.dtype < 0 || is_encoded == is_guarded)) {
    return absl::DataLossError(absl::StrCat("it has no dtype of its own, and its extension, of dtype ", extension.dtype,
                                            ", is that of neither the guarded nor the encoded form"));
  }
  const int64_t number = is_own ? extension.dtype : out->dtype_number;
  std::optional<DType> dtype = DTypeFromNumber(number);
  // Our own numbers never stand in a field that TensorFlow reads.
  if (!is_own && number >= kFirstOwnDTypeNumber) dtype.reset();
  out->dtype_number = number;
  entry.dtype = dtype.value_or(DType::kInvalid);
  entry.form = !dtype.has_value()      ? EntryForm::kUnknown
               : is_sliced             ? EntryForm::kSliced
               : !is_own               ? EntryForm::kPlain
               : extension.has_payload ? EntryForm::kEncoded
                                       : EntryForm::kGuarded;
  if (entry.form == EntryForm::kEncoded) return TakePayload(extension.payload, out);
  if (entry.form != EntryForm::kGuarded) return absl::OkStatus();
  if (!IsFixedSize(entry.dtype)) {
    return absl::DataLossError(
        absl::StrCat("it is guarded and of dtype ", DTypeName(entry.dtype), ", which has no fixed size"));
  }
  absl::StatusOr<Layout> layout = internal::DecodeLayout(extension, entry.shape);
  if (!layout.ok()) return absl::DataLossError(absl::StrCat("its ", layout.status().message()));
  out->layout = *std::move(layout);
  entry.strides.assign(out->layout->strides().begin(), out->layout->strides().end());
  return absl::OkStatus();
}

// Elements, plain or guarded, fill what is stored.
absl::Status CheckSize(const CheckpointEntry& entry) {
  if (entry.form != EntryForm::kPlain && entry.form != EntryForm::kGuarded) return absl::OkStatus();
  const int64_t elements = entry.shape.num_elements();
  if (entry.dtype == DType::kString) {
    // A length takes one byte or more, and four bytes of checksum follow the lengths.
    const uint64_t least = static_cast<uint64_t>(elements) + sizeof(uint32_t);
    if (entry.stored_bytes >= least) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("stores ", entry.stored_bytes, " bytes; string ", entry.shape.ToString(),
                                            " needs ", least, " or more"));
  }
  if (entry.dtype == DType::kVariant) {
    // A length of one byte or more, and a checksum, for each.
    constexpr int64_t kLeastBytes = 1 + sizeof(uint32_t);
    if (static_cast<uint64_t>(elements) <= entry.stored_bytes / kLeastBytes) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("stores ", entry.stored_bytes, " bytes; variant ", entry.shape.ToString(),
                                            " needs ", kLeastBytes, " or more for each element"));
  }
  if (!IsFixedSize(entry.dtype)) return absl::OkStatus();
  const std::optional<uint64_t> wanted =
      CheckedMul(static_cast<uint64_t>(elements), static_cast<uint64_t>(ElementSize(entry.dtype)));
  if (wanted == entry.stored_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("stores ", entry.stored_bytes, " bytes; ", DTypeName(entry.dtype), " ",
                                          entry.shape.ToString(), " needs ",
                                          wanted.has_value() ? absl::StrCat(*wanted) : "more than 2^64"));
}

}  // namespace

absl::StatusOr<IndexHeader> DecodeHeader(absl::string_view value) {
  WireReader reader(value);
  Field field;
  int64_t num_shards = 0;
  int64_t endianness = 0;
  Versions versions;
  while (reader.Next(&field)) {
    switch (field.number) {
      case 1:
        CASK_RETURN_IF_ERROR(TakeInt32(field, "num_shards", &num_shards));
        break;
      case 2:
        CASK_RETURN_IF_ERROR(TakeInt32(field, "endianness", &endianness));
        break;
      case 3:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "version"));
        CASK_RETURN_IF_ERROR(MergeVersions(field.bytes, kConsumerVersion, &versions));
        break;
      default:
        break;
    }
  }
  if (!reader.status().ok()) return NoMessage(reader, "the header");
  // First of all: after that a newer writer may have changed anything.
  const absl::Status for_us = CheckVersions(versions, kConsumerVersion);
  if (!for_us.ok()) return In("the header", for_us);
  if (versions.producer < 0) {
    return absl::DataLossError(absl::StrCat("the header has producer ", versions.producer, "; wanted 0 or more"));
  }
  if (num_shards < 1 || num_shards > kMaxShards) {
    return absl::DataLossError(absl::StrCat("the header has ", num_shards, " shards; wanted 1 to ", kMaxShards));
  }
  if (endianness != 0 && endianness != 1)
    return absl::DataLossError(absl::StrCat("the header has unknown endianness ", endianness));
  IndexHeader header;
  header.num_shards = static_cast<int>(num_shards);
  header.big_endian = endianness == 1;
  return header;
}

absl::Status DecodeEntry(absl::string_view value, int num_shards, IndexEntry* out) {
  *out = IndexEntry();
  WireReader reader(value);
  Field field;
  DimVector dims;
  internal::WireExtensionFields fields;
  int64_t shard = 0;
  int64_t offset = 0;
  int64_t size = 0;
  while (reader.Next(&field)) {
    switch (field.number) {
      case EntryField::kDType:
        CASK_RETURN_IF_ERROR(TakeInt32(field, "dtype", &out->dtype_number));
        break;
      case EntryField::kShape:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "shape"));
        CASK_RETURN_IF_ERROR(DecodeDims(field.bytes, &dims));
        break;
      case EntryField::kShardId:
        CASK_RETURN_IF_ERROR(TakeInt32(field, "shard_id", &shard));
        break;
      case EntryField::kOffset:
        CASK_RETURN_IF_ERROR(TakeInt64(field, "offset", &offset));
        break;
      case EntryField::kSize:
        CASK_RETURN_IF_ERROR(TakeInt64(field, "size", &size));
        break;
      case EntryField::kCrc32c:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kFixed32, "crc32c"));
        out->entry.masked_crc32c = static_cast<uint32_t>(field.value);
        break;
      case EntryField::kSlices:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "slices"));
        CASK_RETURN_IF_ERROR(AddSlice(field.bytes, value.size(), &out->entry));
        break;
      case internal::kExtensionNumber:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "extension"));
        CASK_RETURN_IF_ERROR(AddExtension(field.bytes, &fields, out));
        break;
      default:
        break;
    }
  }
  if (!reader.status().ok()) return NoMessage(reader, "its entry");
  absl::StatusOr<TensorShape> shape = TensorShape::Create(dims);
  if (!shape.ok()) return absl::DataLossError(shape.status().message());
  out->entry.shape = *std::move(shape);
  if (shard < 0 || shard >= num_shards) {
    return absl::DataLossError(absl::StrCat("its shard is ", shard, " of ", num_shards));
  }
  if (offset < 0 || size < 0 || size > INT64_MAX - offset) {
    return absl::DataLossError(absl::StrCat("its place is ", size, " bytes at ", offset));
  }
  out->entry.shard = static_cast<int32_t>(shard);
  out->entry.offset = static_cast<uint64_t>(offset);
  out->entry.stored_bytes = static_cast<uint64_t>(size);
  CASK_RETURN_IF_ERROR(CheckSlices(out->entry));
  CASK_RETURN_IF_ERROR(ChooseForm(fields.extension, out));
  return CheckSize(out->entry);
}

absl::StatusOr<TensorMetadata> DecodeMetadata(const IndexEntry& index, const DecodeLimits& limits) {
  internal::WireExtensionFields fields;
  DecodeOptions options;
  options.limits = limits;
  CASK_RETURN_IF_ERROR(fields.Read(index.extension, kMaxDepth));  // DecodeEntry has seen that it is well formed
  absl::StatusOr<TensorMetadata> metadata =
      internal::DecodeMetadata(fields, index.entry.dtype, index.entry.shape.rank(), options);
  if (!metadata.ok()) return absl::DataLossError(absl::StrCat("its ", metadata.status().message()));
  return metadata;
}

}  // namespace tensorcask::checkpoint
