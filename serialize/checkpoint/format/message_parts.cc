#include "tensorcask/serialize/checkpoint/format/message_parts.h"

#include <cstddef>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::checkpoint {
namespace {

using internal::FieldRule;
using internal::ForEachField;
using Field = WireReader::Field;

constexpr FieldRule kVersionFields[] = {{1, "producer", FieldRule::Kind::kVarint},
                                        {2, "min_consumer", FieldRule::Kind::kVarint},
                                        {3, "bad_consumers", FieldRule::Kind::kPackedVarint}};

}  // namespace

const internal::MessageRules kVersionRules = {kVersionFields};

absl::Status CheckStoredMessage(absl::string_view bytes, const internal::MessageRules& rules,
                                const DecodeLimits& limits, absl::string_view what) {
  const absl::Status status = internal::CheckMessage(bytes, rules, limits.max_depth);
  if (status.ok()) return status;
  if (!absl::IsInvalidArgument(status)) return Annotate(status, what);
  return absl::DataLossError(absl::StrCat(what, " is not a valid message: ", status.message()));
}

absl::Status ParseInt32(const Field& field, absl::string_view name, int64_t* value) {
  *value = static_cast<int64_t>(field.value);  // negative numbers are stored with 64 bits
  if (*value == static_cast<int32_t>(*value)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("field ", name, " is ", *value, ", which does not fit 32 bits"));
}

absl::StatusOr<TensorSlice> DecodeSlice(absl::string_view message) {
  absl::InlinedVector<TensorSlice::Extent, 4> extents;
  size_t num_extents = 0;
  ForEachField(message, [&](const Field& field) {
    if (field.number != 1 || ++num_extents > size_t{TensorShape::kMaxRank}) return;
    TensorSlice::Extent extent;
    ForEachField(field.bytes, [&extent](const Field& part) {
      if (part.number == 1) extent.start = static_cast<int64_t>(part.value);
      if (part.number == 2) extent.length = static_cast<int64_t>(part.value);
    });
    extents.push_back(extent);
  });
  if (num_extents > size_t{TensorShape::kMaxRank}) {
    return absl::DataLossError(
        absl::StrCat("a slice has ", num_extents, " extents; a tensor has at most ", TensorShape::kMaxRank, " axes"));
  }
  absl::StatusOr<TensorSlice> slice = TensorSlice::Create(extents);
  if (!slice.ok()) return absl::DataLossError(slice.status().message());
  return slice;
}

absl::Status MergeVersions(absl::string_view message, int consumer, Versions* versions) {
  const auto exclude = [&](uint64_t number) {
    const auto version = static_cast<int64_t>(number);
    if (version >= 1 && version <= consumer) versions->bad_consumer = version;
    return true;
  };
  absl::Status status;
  ForEachField(message, [&](const Field& field) {
    if (field.number == 1) status.Update(ParseInt32(field, "version.producer", &versions->producer));
    if (field.number == 2) status.Update(ParseInt32(field, "version.min_consumer", &versions->min_consumer));
    if (field.number != 3) return;
    if (field.type == WireType::kBytes) {
      internal::ForEachVarint(field.bytes, exclude);
    } else {
      exclude(field.value);
    }
  });
  return status;
}

absl::Status CheckVersions(const Versions& versions, int consumer) {
  if (versions.min_consumer > consumer) {
    return absl::UnimplementedError(
        absl::StrCat("requires reader version ", versions.min_consumer, "; this reader has version ", consumer));
  }
  if (!versions.bad_consumer.has_value()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("excludes readers of version ", *versions.bad_consumer));
}

}  // namespace tensorcask::checkpoint
