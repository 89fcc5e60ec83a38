#include "tensorcask/serialize/checkpoint/message_parts.h"

#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::checkpoint {
namespace {

using Field = WireReader::Field;

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

absl::Status DecodeExtent(absl::string_view message, TensorSlice::Extent* extent) {
  WireReader reader(message);
  for (Field field; reader.Next(&field);) {
    if (field.number == 1) CASK_RETURN_IF_ERROR(TakeInt64(field, "extent.start", &extent->start));
    if (field.number == 2) CASK_RETURN_IF_ERROR(TakeInt64(field, "extent.length", &extent->length));
  }
  return reader.status().ok() ? absl::OkStatus() : NoMessage(reader, "an extent of a slice");
}

}  // namespace

absl::Status NoMessage(const WireReader& reader, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(what, " is no protobuf message: ", reader.status().message()));
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

absl::StatusOr<TensorSlice> DecodeSlice(absl::string_view message) {
  absl::InlinedVector<TensorSlice::Extent, 4> extents;
  WireReader reader(message);
  for (Field field; reader.Next(&field);) {
    if (field.number != 1) continue;
    CASK_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "extent"));
    if (extents.size() == TensorShape::kMaxRank) {
      return absl::DataLossError(absl::StrCat("a slice has more than ", TensorShape::kMaxRank, " extents"));
    }
    TensorSlice::Extent extent;
    CASK_RETURN_IF_ERROR(DecodeExtent(field.bytes, &extent));
    extents.push_back(extent);
  }
  if (!reader.status().ok()) return NoMessage(reader, "a slice");
  absl::StatusOr<TensorSlice> slice = TensorSlice::Create(extents);
  if (!slice.ok()) return absl::DataLossError(slice.status().message());
  return slice;
}

absl::Status MergeVersions(absl::string_view message, int consumer, Versions* versions) {
  WireReader reader(message);
  for (Field field; reader.Next(&field);) {
    if (field.number == 1) CASK_RETURN_IF_ERROR(TakeInt32(field, "version.producer", &versions->producer));
    if (field.number == 2) CASK_RETURN_IF_ERROR(TakeInt32(field, "version.min_consumer", &versions->min_consumer));
    if (field.number != 3) continue;
    CASK_RETURN_IF_ERROR(TakeRepeated(field, "version.bad_consumers", [&](int64_t version) {
      if (version >= 1 && version <= consumer) versions->bad_consumer = version;
    }));
  }
  return reader.status().ok() ? absl::OkStatus() : NoMessage(reader, "its version");
}

absl::Status CheckVersions(const Versions& versions, int consumer) {
  if (versions.min_consumer > consumer) {
    return absl::UnimplementedError(
        absl::StrCat("wants a reader of version ", versions.min_consumer, "; this one has version ", consumer));
  }
  if (!versions.bad_consumer.has_value()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("excludes readers of version ", *versions.bad_consumer));
}

}  // namespace tensorcask::checkpoint
