#include "tensorcask/serialize/checkpoint/entry_codec.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/naming.h"
#include "tensorcask/serialize/checkpoint/table_format.h"
#include "tensorcask/serialize/wire/wire_reader.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::checkpoint {
namespace {

using Field = WireReader::Field;

absl::Status Broken(const WireReader& reader, absl::string_view message) {
  return absl::DataLossError(absl::StrCat(message, " is no protobuf message: ", reader.status().message()));
}

absl::Status Expect(const Field& field, WireType type, absl::string_view name) {
  if (field.type == type) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("field ", name, " has wire type ", static_cast<int>(field.type), ", not ", static_cast<int>(type)));
}

absl::Status TakeInt64(const Field& field, absl::string_view name, int64_t* value) {
  CASK_RETURN_IF_ERROR(Expect(field, WireType::kVarint, name));
  *value = static_cast<int64_t>(field.value);  // negative numbers are their two's complement
  return absl::OkStatus();
}

absl::Status TakeInt32(const Field& field, absl::string_view name, int64_t* value) {
  CASK_RETURN_IF_ERROR(TakeInt64(field, name, value));
  if (*value == static_cast<int32_t>(*value)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("field ", name, " is ", *value, ", past 32 bits"));
}

// A repeated number, packed or not: fn(value) for each.
template <typename Fn>
absl::Status TakeRepeated(const Field& field, absl::string_view name, Fn&& fn) {
  if (field.type != WireType::kBytes) {
    CASK_RETURN_IF_ERROR(Expect(field, WireType::kVarint, name));
    fn(static_cast<int64_t>(field.value));
    return absl::OkStatus();
  }
  absl::string_view rest = field.bytes;
  while (!rest.empty()) {
    uint64_t value = 0;
    if (!WireReader::ReadVarint(&rest, &value)) {
      return absl::DataLossError(absl::StrCat("field ", name, " has a number that is cut short"));
    }
    fn(static_cast<int64_t>(value));
  }
  return absl::OkStatus();
}

struct Versions {
  int64_t producer = 0;
  int64_t min_consumer = 0;
  std::optional<int64_t> bad_consumer;  // one that shuts us out
};

absl::Status DecodeVersions(absl::string_view message, Versions* versions) {
  WireReader reader(message);
  Field field;
  while (reader.Next(&field)) {
    switch (field.number) {
      case 1:
        CASK_RETURN_IF_ERROR(TakeInt32(field, "version.producer", &versions->producer));
        break;
      case 2:
        CASK_RETURN_IF_ERROR(TakeInt32(field, "version.min_consumer", &versions->min_consumer));
        break;
      case 3:
        // What is bad for TensorFlow's consumer is bad for ours: it reads plain entries in the same way.
        CASK_RETURN_IF_ERROR(TakeRepeated(field, "version.bad_consumers", [&](int64_t version) {
          if (version >= 1 && version <= kConsumerVersion) versions->bad_consumer = version;
        }));
        break;
      default:
        break;
    }
  }
  return reader.status().ok() ? absl::OkStatus() : Broken(reader, "the header's version");
}

absl::Status DecodeDim(absl::string_view message, int64_t* size) {
  WireReader reader(message);
  Field field;
  while (reader.Next(&field)) {
    if (field.number == 1) CASK_RETURN_IF_ERROR(TakeInt64(field, "shape.dim.size", size));
    if (field.number == 2) CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "shape.dim.name"));
  }
  return reader.status().ok() ? absl::OkStatus() : Broken(reader, "a dim");
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
  return reader.status().ok() ? absl::OkStatus() : Broken(reader, "its shape");
}

// What matters of a TensorExtension here: which form it makes of the entry, and whether it says more.
struct Extension {
  int64_t dtype = 0;
  bool has_strides = false;
  int64_t storage_offset = 0;
  int64_t memory_format = 0;
  bool has_payload = false;
  bool has_metadata = false;  // a name, a device, attributes, requires_grad

  bool has_layout() const { return has_strides || storage_offset != 0 || memory_format != 0; }
};

absl::Status DecodeExtension(absl::string_view message, Extension* extension) {
  WireReader reader(message);
  Field field;
  int64_t number = 0;
  while (reader.Next(&field)) {
    switch (field.number) {
      case 1:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "extension.name"));
        extension->has_metadata |= !field.bytes.empty();
        break;
      case 2:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "extension.device"));
        extension->has_metadata |= !field.bytes.empty();
        break;
      case 3:
        CASK_RETURN_IF_ERROR(TakeInt32(field, "extension.dtype", &extension->dtype));
        break;
      case 4:
        CASK_RETURN_IF_ERROR(TakeRepeated(field, "extension.strides", [&](int64_t) { extension->has_strides = true; }));
        break;
      case 5:
        CASK_RETURN_IF_ERROR(TakeInt64(field, "extension.storage_offset", &extension->storage_offset));
        break;
      case 6:
        CASK_RETURN_IF_ERROR(TakeInt32(field, "extension.memory_format", &extension->memory_format));
        break;
      case 7:
        CASK_RETURN_IF_ERROR(TakeInt64(field, "extension.requires_grad", &number));
        extension->has_metadata |= number != 0;
        break;
      case 8:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kFixed32, "extension.crc32c"));
        break;
      case 9:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "extension.attributes"));
        extension->has_metadata = true;
        break;
      case 10:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "extension.payload"));
        extension->has_payload = !field.bytes.empty();  // the last one counts
        break;
      default:
        break;
    }
  }
  return reader.status().ok() ? absl::OkStatus() : Broken(reader, "its extension");
}

// Sets dtype and form from what the entry's fields say, refusing mixtures of the forms.
absl::Status ChooseForm(absl::string_view name, const Extension& extension, IndexEntry* out) {
  CheckpointEntry& entry = out->entry;
  const bool ours = extension.dtype != 0 || extension.has_layout() || extension.has_payload;
  if (out->dtype_number != 0 && ours) {
    return absl::DataLossError(
        absl::StrCat("it has dtype ", out->dtype_number,
                     " and an extension that wants dtype 0 (of another dtype, layout or coding)"));
  }
  if (out->dtype_number == 0 && extension.dtype == 0) {
    return absl::DataLossError("it has no dtype, neither of its own nor in an extension");
  }
  if (out->is_slice_list && out->dtype_number == 0) return absl::DataLossError("it has slices and no dtype of its own");
  const int64_t number = out->dtype_number != 0 ? out->dtype_number : extension.dtype;
  std::optional<DType> dtype = DTypeFromNumber(number);
  // Our own numbers never stand in a field that TensorFlow reads.
  if (out->dtype_number >= kFirstOwnDTypeNumber) dtype.reset();
  entry.dtype = dtype.value_or(DType::kInvalid);
  entry.has_metadata = extension.has_metadata;
  out->has_plain_bytes = dtype.has_value() && out->dtype_number != 0 && !out->is_slice_list;
  const bool is_piece = !name.empty() && name[0] == '\0';
  if (!dtype.has_value()) {
    entry.form = EntryForm::kUnknown;
  } else if (out->is_slice_list || is_piece) {
    entry.form = EntryForm::kSliced;
  } else if (out->dtype_number == 0) {
    entry.form = extension.has_payload ? EntryForm::kEncoded : EntryForm::kGuarded;
  } else {
    entry.form = EntryForm::kPlain;
  }
  out->dtype_number = number;
  return absl::OkStatus();
}

// Plain elements fill what is stored.
absl::Status CheckSize(const CheckpointEntry& entry) {
  const int64_t elements = entry.shape.num_elements();
  if (entry.dtype == DType::kString) {
    // A length takes one byte or more, and four bytes of checksum follow the lengths.
    const uint64_t least = static_cast<uint64_t>(elements) + sizeof(uint32_t);
    if (entry.stored_bytes >= least) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("stores ", entry.stored_bytes, " bytes; string ", entry.shape.ToString(),
                                            " needs ", least, " or more"));
  }
  if (!IsFixedSize(entry.dtype)) return absl::OkStatus();  // variants
  const std::optional<uint64_t> wanted =
      CheckedMul(static_cast<uint64_t>(elements), static_cast<uint64_t>(ElementSize(entry.dtype)));
  if (wanted == entry.stored_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("stores ", entry.stored_bytes, " bytes; ", DTypeName(entry.dtype), " ",
                                          entry.shape.ToString(), " needs ",
                                          wanted.has_value() ? absl::StrCat(*wanted) : "more than 2^64"));
}

void AppendTag(int number, WireType type, std::string* out) {
  AppendVarint(static_cast<uint64_t>(number) << 3 | static_cast<uint64_t>(type), out);
}

// As proto3 has it: nothing for 0.
void AppendNumber(int number, uint64_t value, std::string* out) {
  if (value == 0) return;
  AppendTag(number, WireType::kVarint, out);
  AppendVarint(value, out);
}

void AppendBytes(int number, absl::string_view bytes, std::string* out) {
  AppendTag(number, WireType::kBytes, out);
  AppendVarint(bytes.size(), out);
  out->append(bytes.data(), bytes.size());
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
        CASK_RETURN_IF_ERROR(DecodeVersions(field.bytes, &versions));
        break;
      default:
        break;
    }
  }
  if (!reader.status().ok()) return Broken(reader, "the header");
  // First of all: after that a newer writer may have changed anything.
  if (versions.min_consumer > kConsumerVersion) {
    return absl::UnimplementedError(absl::StrCat("the header wants a reader of version ", versions.min_consumer,
                                                 "; this one has version ", kConsumerVersion));
  }
  if (versions.bad_consumer.has_value()) {
    return absl::UnimplementedError(absl::StrCat("the header excludes readers of version ", *versions.bad_consumer));
  }
  if (versions.producer < 0) {
    return absl::DataLossError(absl::StrCat("the header has producer ", versions.producer, "; wanted 0 or more"));
  }
  if (num_shards < 1 || num_shards > kMaxShards) {
    return absl::DataLossError(absl::StrCat("the header has ", num_shards, " shards; wanted 1 to ", kMaxShards));
  }
  if (endianness == 1) return absl::UnimplementedError("the data is big-endian, which this version does not read");
  if (endianness != 0) return absl::DataLossError(absl::StrCat("the header has unknown endianness ", endianness));
  IndexHeader header;
  header.num_shards = static_cast<int>(num_shards);
  return header;
}

std::string EncodeHeader(const IndexHeader& header) {
  std::string version;
  AppendNumber(1, 1, &version);
  std::string out;
  AppendNumber(1, static_cast<uint64_t>(header.num_shards), &out);
  AppendBytes(3, version, &out);
  return out;
}

absl::Status DecodeEntry(absl::string_view name, absl::string_view value, int num_shards, IndexEntry* out) {
  *out = IndexEntry();
  WireReader reader(value);
  Field field;
  DimVector dims;
  Extension extension;
  int64_t shard = 0;
  int64_t offset = 0;
  int64_t size = 0;
  while (reader.Next(&field)) {
    switch (field.number) {
      case 1:
        CASK_RETURN_IF_ERROR(TakeInt32(field, "dtype", &out->dtype_number));
        break;
      case 2:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "shape"));
        CASK_RETURN_IF_ERROR(DecodeDims(field.bytes, &dims));
        break;
      case 3:
        CASK_RETURN_IF_ERROR(TakeInt32(field, "shard_id", &shard));
        break;
      case 4:
        CASK_RETURN_IF_ERROR(TakeInt64(field, "offset", &offset));
        break;
      case 5:
        CASK_RETURN_IF_ERROR(TakeInt64(field, "size", &size));
        break;
      case 6:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kFixed32, "crc32c"));
        out->entry.masked_crc32c = static_cast<uint32_t>(field.value);
        break;
      case 7:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "slices"));
        out->is_slice_list = true;
        break;
      case 4096:
        CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "extension"));
        CASK_RETURN_IF_ERROR(DecodeExtension(field.bytes, &extension));
        break;
      default:
        break;
    }
  }
  if (!reader.status().ok()) return Broken(reader, "its entry");
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
  CASK_RETURN_IF_ERROR(ChooseForm(name, extension, out));
  return out->has_plain_bytes ? CheckSize(out->entry) : absl::OkStatus();
}

std::string EncodeEntry(const CheckpointEntry& entry) {
  CASK_CHECK(entry.form == EntryForm::kPlain, "EncodeEntry: only plain entries are written");
  std::string shape;
  for (int axis = 0; axis < entry.shape.rank(); ++axis) {
    std::string dim;
    AppendNumber(1, static_cast<uint64_t>(entry.shape.dim(axis)), &dim);
    AppendBytes(2, dim, &shape);
  }
  std::string out;
  AppendNumber(1, static_cast<uint64_t>(DTypeNumber(entry.dtype)), &out);
  AppendBytes(2, shape, &out);
  AppendNumber(3, static_cast<uint64_t>(entry.shard), &out);
  AppendNumber(4, entry.offset, &out);
  AppendNumber(5, entry.stored_bytes, &out);
  if (entry.masked_crc32c != 0) {
    AppendTag(6, WireType::kFixed32, &out);
    char bytes[sizeof(uint32_t)];
    StoreLittleEndian(entry.masked_crc32c, bytes);
    out.append(bytes, sizeof(bytes));
  }
  return out;
}

}  // namespace tensorcask::checkpoint
