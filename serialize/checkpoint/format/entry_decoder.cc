#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/format/message_parts.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/protowire/message_rules.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/message/layout_decoder.h"
#include "tensorcask/serialize/wire/message/metadata_decoder.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::checkpoint {
namespace {

using internal::FieldRule;
using internal::ForEachField;
using Field = WireReader::Field;
using Kind = FieldRule::Kind;

constexpr FieldRule kEntryFields[] = {
    {EntryField::kDType, "dtype", Kind::kVarint},
    {EntryField::kShape, "shape", Kind::kMessage, &internal::kShapeRules},
    {EntryField::kShardId, "shard_id", Kind::kVarint},
    {EntryField::kOffset, "offset", Kind::kVarint},
    {EntryField::kSize, "size", Kind::kVarint},
    {EntryField::kCrc32c, "crc32c", Kind::kFixed32},
    {EntryField::kSlices, "slices", Kind::kMessage, &internal::kSliceRules},
    {internal::kExtensionNumber, "extension", Kind::kMessage, &internal::kExtensionRules},
};
const internal::MessageRules kEntryRules = {kEntryFields};

constexpr uint32_t kReaderVersion = 1;  // fields of BundleExtension
constexpr uint32_t kBase = 2;
constexpr FieldRule kReaderFields[] = {{kReaderVersion, "reader_version", Kind::kVarint},
                                       {kBase, "base", Kind::kBytes}};
const internal::MessageRules kReaderRules = {kReaderFields};

constexpr uint32_t kNumShards = 1;  // fields of BundleHeaderProto
constexpr uint32_t kEndianness = 2;
constexpr uint32_t kVersion = 3;
constexpr FieldRule kHeaderFields[] = {{kNumShards, "num_shards", Kind::kVarint},
                                       {kEndianness, "endianness", Kind::kVarint},
                                       {kVersion, "version", Kind::kMessage, &kVersionRules},
                                       {internal::kExtensionNumber, "extension", Kind::kMessage, &kReaderRules}};
const internal::MessageRules kHeaderRules = {kHeaderFields};

absl::StatusOr<TensorShape> ShapeFrom(const internal::ShapeFields& fields) {
  if (fields.unknown_rank) return absl::DataLossError("its shape has unknown rank");
  if (fields.num_axes > internal::ShapeFields::kMaxDims) {
    return absl::DataLossError(absl::StrCat("its shape has ", fields.num_axes, " dims; a tensor has at most ",
                                            internal::ShapeFields::kMaxDims));
  }
  absl::StatusOr<TensorShape> shape = TensorShape::Create(fields.dims);
  if (!shape.ok()) return absl::DataLossError(absl::StrCat("its shape: ", shape.status().message()));
  return shape;
}

constexpr size_t kSmallEntryBytes = 512;

// How many slices an entry of `entry_bytes` may list. A slice that selects a part of a tensor takes some eight bytes in
// a message; an empty one takes two.
constexpr size_t kFreeBytes = 4096;
constexpr size_t kSliceExpansion = 16;
size_t MaxSlices(size_t entry_bytes) { return (kFreeBytes + kSliceExpansion * entry_bytes) / sizeof(TensorSlice) + 1; }

// So that the list of slices does not take twice its memory while it grows.
void ReserveSlices(absl::string_view value, CheckpointEntry* entry) {
  size_t count = 0;
  ForEachField(value, [&](const Field& field) { count += field.number == EntryField::kSlices ? 1 : 0; });
  entry->slices.reserve(std::min(count, MaxSlices(value.size())));
}

// Adds the slice in `message` to those of *entry, whose shape is not known yet. `entry_bytes` is the size of the
// message that lists it.
absl::Status AddSlice(absl::string_view message, size_t entry_bytes, CheckpointEntry* entry) {
  CASK_ASSIGN_OR_RETURN(TensorSlice slice, DecodeSlice(message));
  if (entry->slices.size() >= MaxSlices(entry_bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("lists more than ", entry->slices.size(), " slices in ", entry_bytes, " bytes; the limit is ",
                     kFreeBytes, " bytes in memory and ", kSliceExpansion, " for each byte of the entry"));
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

// Reads the BundleExtension in `message`, merging.
absl::Status MergeExtension(absl::string_view message, int64_t* version, std::string* base) {
  absl::Status status;
  ForEachField(message, [&](const Field& field) {
    if (field.number == kReaderVersion) status.Update(ParseInt32(field, "extension.reader_version", version));
    if (field.number == kBase) *base = std::string(field.bytes);
  });
  return status;
}

// Checks that this reader may read a file that requires `version` of Tensorcask's reader; 0: the header has no such
// field. TensorFlow may one day write a min_consumer of 2 for a reason of its own.
absl::Status CheckReaderVersion(int64_t version, int64_t min_consumer) {
  if (version < 0) return absl::DataLossError(absl::StrCat("asks for reader version ", version, "; wanted 0 or more"));
  if (version > kConsumerVersion) {
    return absl::UnimplementedError(absl::StrCat(
        "asks for version ", version, " of Tensorcask's reader; this reader has version ", kConsumerVersion));
  }
  if (min_consumer < kConsumerVersion || version == kConsumerVersion) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("has min_consumer ", min_consumer,
                   " without Tensorcask's mark (field 4096): it was written for a newer reader of another program"));
}

// Merges `message` into *extension and appends it to out->extension.
void AddExtension(absl::string_view message, internal::ExtensionFields* extension, IndexEntry* out) {
  internal::MergeExtension(message, extension);
  out->extension.append(message.data(), message.size());
  bool has_attributes = false;
  internal::ForEachAttributeOf(message, [&has_attributes](absl::string_view, absl::string_view) {
    has_attributes = true;
    return false;
  });
  out->entry.has_metadata |= has_attributes || !extension->name.empty() || !extension->device.empty() ||
                             extension->memory_format != 0 || extension->requires_grad;
}

// Sets what the header of an encoded entry's payload says. A header of a later version sets out->readable alone.
absl::Status SetPayload(absl::string_view bytes, IndexEntry* out) {
  CheckpointEntry& entry = out->entry;
  if (bytes.size() != kPayloadHeaderBytes) {
    return absl::DataLossError(
        absl::StrCat("the header of its payload has ", bytes.size(), " bytes; wanted ", kPayloadHeaderBytes));
  }
  absl::StatusOr<PayloadHeader> header = PayloadHeader::Parse(bytes);
  if (absl::IsUnimplemented(header.status())) {
    out->readable = header.status();
    return absl::OkStatus();
  }
  if (!header.ok()) return absl::DataLossError(absl::StrCat("its ", header.status().message()));
  if (header->dtype != entry.dtype || header->num_elements != static_cast<uint64_t>(entry.shape.num_elements())) {
    return absl::DataLossError(absl::StrCat("its payload has ", header->num_elements, " elements of ",
                                            DTypeName(header->dtype), "; it is ", DTypeName(entry.dtype), " ",
                                            entry.shape.ToString()));
  }
  entry.payload = std::make_shared<const PayloadHeader>(*std::move(header));
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
                     " and an extension with a dtype, layout or payload of its own; wanted dtype 0 beside these"));
  }
  if (is_own && extension.dtype == 0) {
    return absl::DataLossError("neither it nor its extension has a dtype");
  }
  if (is_own && is_sliced && (extension.dtype < kFirstOwnDTypeNumber || has_layout || extension.has_payload)) {
    return absl::DataLossError(
        "it has slices, and an extension with a layout, a payload or one of TensorFlow's dtypes");
  }
  // As in a message (serialize/wire/FORMAT.md section 1).
  const bool is_encoded = extension.has_payload && !has_layout;
  const bool is_extension_only =
      !extension.has_payload &&
      (extension.num_strides > 0 || (extension.dtype >= kFirstOwnDTypeNumber && extension.storage_offset == 0));
  if (is_own && (extension.dtype < 0 || is_encoded == is_extension_only)) {
    return absl::DataLossError(absl::StrCat("it has dtype 0, and its extension, with dtype ", extension.dtype,
                                            ", is neither that of an extension-only entry nor that of an encoded one"));
  }
  const int64_t number = is_own ? extension.dtype : out->dtype_number;
  std::optional<DType> dtype = DTypeFromNumber(number);
  // A field that TensorFlow reads never has one of our own numbers.
  if (!is_own && number >= kFirstOwnDTypeNumber) dtype.reset();
  out->dtype_number = number;
  entry.dtype = dtype.value_or(DType::kInvalid);
  entry.form = !dtype.has_value()      ? EntryForm::kUnknown
               : is_sliced             ? EntryForm::kSliced
               : !is_own               ? EntryForm::kPlain
               : extension.has_payload ? EntryForm::kEncoded
                                       : EntryForm::kExtensionOnly;
  if (entry.form == EntryForm::kEncoded) return SetPayload(extension.payload, out);
  if (entry.form != EntryForm::kExtensionOnly) return absl::OkStatus();
  if (!IsFixedSize(entry.dtype)) {
    return absl::DataLossError(
        absl::StrCat("it is extension-only and of dtype ", DTypeName(entry.dtype), ", which has no fixed size"));
  }
  absl::StatusOr<Layout> layout = internal::DecodeLayout(extension, entry.shape);
  if (!layout.ok()) return absl::DataLossError(absl::StrCat("its ", layout.status().message()));
  out->layout = *std::move(layout);
  if (!out->layout->IsContiguous()) {
    entry.strides.assign(out->layout->strides().begin(), out->layout->strides().end());
  }
  return absl::OkStatus();
}

// Checks that the elements, plain or extension-only, fill the stored range.
absl::Status CheckSize(const CheckpointEntry& entry) {
  if (entry.form != EntryForm::kPlain && entry.form != EntryForm::kExtensionOnly) return absl::OkStatus();
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
  return absl::DataLossError(absl::StrCat(
      "stores ", entry.stored_bytes, entry.stored_bytes == 1 ? " byte; " : " bytes; ", DTypeName(entry.dtype), " ",
      entry.shape.ToString(), " needs ", wanted.has_value() ? absl::StrCat(*wanted) : "more than 2^64"));
}

}  // namespace

absl::StatusOr<IndexHeader> DecodeHeader(absl::string_view value, const DecodeLimits& limits) {
  CASK_RETURN_IF_ERROR(CheckStoredMessage(value, kHeaderRules, limits, "the header"));
  int64_t num_shards = 0;
  int64_t endianness = 0;
  int64_t reader_version = 0;
  Versions versions;
  IndexHeader header;
  absl::Status status;
  ForEachField(value, [&](const Field& field) {
    if (field.number == kNumShards) status.Update(ParseInt32(field, "num_shards", &num_shards));
    if (field.number == kEndianness) status.Update(ParseInt32(field, "endianness", &endianness));
    if (field.number == kVersion) status.Update(MergeVersions(field.bytes, kConsumerVersion, &versions));
    if (field.number == internal::kExtensionNumber)
      status.Update(MergeExtension(field.bytes, &reader_version, &header.base));
  });
  CASK_RETURN_IF_ERROR(status);
  // First of all: a newer writer may have changed the meaning of everything else.
  absl::Status readable = CheckVersions(versions, kConsumerVersion);
  if (readable.ok()) readable = CheckReaderVersion(reader_version, versions.min_consumer);
  if (!readable.ok()) return Annotate(readable, "the header");
  if (versions.producer < 0) {
    return absl::DataLossError(absl::StrCat("the header has producer ", versions.producer, "; wanted 0 or more"));
  }
  if (num_shards < 1 || num_shards > kMaxShards) {
    return absl::DataLossError(absl::StrCat("the header has ", num_shards, " shards; wanted 1 to ", kMaxShards));
  }
  if (endianness != 0 && endianness != 1) {
    return absl::DataLossError(
        absl::StrCat("the header has endianness ", endianness, "; wanted 0 (little) or 1 (big)"));
  }
  // A name from a file becomes a path, and a part of messages.
  constexpr size_t kMaxNameBytes = 255;  // no file has a longer one
  if (header.base.find('/') != std::string::npos || header.base.find('\0') != std::string::npos ||
      header.base.size() > kMaxNameBytes) {
    return absl::DataLossError(
        absl::StrCat("the header names the base ", Quoted(header.base), "; wanted a name in the same folder"));
  }
  header.num_shards = static_cast<int>(num_shards);
  header.big_endian = endianness == 1;
  return header;
}

uint64_t LargeEntryBytes(absl::string_view value) {
  if (value.size() <= kSmallEntryBytes) return 0;
  constexpr uint64_t kInlineExtents = 4;
  constexpr uint64_t kAllocationBytes = 16;
  uint64_t bytes = value.size();  // the size of the extension
  // The value is not checked yet: a field that is not a message counts as a slice with no extents.
  ForEachField(value, [&](const Field& field) {
    if (field.number != EntryField::kSlices) return;
    uint64_t extents = 0;
    ForEachField(field.bytes, [&](const Field& extent) { extents += extent.number == 1 ? 1 : 0; });
    bytes += sizeof(TensorSlice);
    if (extents > kInlineExtents) bytes += extents * sizeof(TensorSlice::Extent) + kAllocationBytes;
  });
  return bytes;
}

absl::Status DecodeEntry(absl::string_view value, int num_shards, const DecodeLimits& limits, IndexEntry* out) {
  *out = IndexEntry();
  CASK_RETURN_IF_ERROR(CheckStoredMessage(value, kEntryRules, limits, "its entry"));
  if (value.size() > kSmallEntryBytes) ReserveSlices(value, &out->entry);
  internal::ShapeFields shape;
  internal::ExtensionFields extension;
  int64_t shard = 0;
  int64_t offset = 0;
  int64_t size = 0;
  absl::Status status;
  ForEachField(value, [&](const Field& field) {
    if (!status.ok()) return;
    switch (field.number) {
      case EntryField::kDType:
        status = ParseInt32(field, "dtype", &out->dtype_number);
        break;
      case EntryField::kShape:
        internal::MergeShape(field.bytes, &shape);
        break;
      case EntryField::kShardId:
        status = ParseInt32(field, "shard_id", &shard);
        break;
      case EntryField::kOffset:
        offset = static_cast<int64_t>(field.value);
        break;
      case EntryField::kSize:
        size = static_cast<int64_t>(field.value);
        break;
      case EntryField::kCrc32c:
        out->entry.masked_crc32c = static_cast<uint32_t>(field.value);
        break;
      case EntryField::kSlices:
        status = AddSlice(field.bytes, value.size(), &out->entry);
        break;
      case internal::kExtensionNumber:
        AddExtension(field.bytes, &extension, out);
        break;
      default:
        break;
    }
  });
  CASK_RETURN_IF_ERROR(status);
  CASK_ASSIGN_OR_RETURN(out->entry.shape, ShapeFrom(shape));
  if (shard < 0 || shard >= num_shards) {
    return absl::DataLossError(absl::StrCat("its shard is ", shard, "; there are ", num_shards));
  }
  if (offset < 0 || size < 0 || size > INT64_MAX - offset) {
    return absl::DataLossError(
        absl::StrCat("its offset is ", offset, " and its size ", size, "; wanted 0 or more, and an end below 2^63"));
  }
  out->entry.shard = static_cast<int32_t>(shard);
  out->entry.offset = static_cast<uint64_t>(offset);
  out->entry.stored_bytes = static_cast<uint64_t>(size);
  CASK_RETURN_IF_ERROR(CheckSlices(out->entry));
  CASK_RETURN_IF_ERROR(ChooseForm(extension, out));
  return CheckSize(out->entry);
}

absl::StatusOr<TensorMetadata> DecodeMetadata(const IndexEntry& index, const DecodeLimits& limits) {
  internal::WireExtensionFields fields;
  DecodeOptions options;
  options.limits = limits;
  CASK_RETURN_IF_ERROR(fields.Read(index.extension, limits.max_depth));  // DecodeEntry has found it well formed
  absl::StatusOr<TensorMetadata> metadata =
      internal::DecodeMetadata(fields, index.entry.dtype, index.entry.shape.rank(), options);
  if (metadata.ok()) return metadata;
  const bool is_limit = absl::IsResourceExhausted(metadata.status());
  return absl::Status(is_limit ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kDataLoss,
                      absl::StrCat("its ", metadata.status().message()));
}

}  // namespace tensorcask::checkpoint
