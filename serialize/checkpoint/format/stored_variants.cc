#include "tensorcask/serialize/checkpoint/format/stored_variants.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/wire/message/object_decoder.h"
#include "tensorcask/serialize/wire/message/object_encoder.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/dtype_visit.h"

namespace tensorcask::checkpoint {
namespace {

constexpr size_t kChecksumBytes = sizeof(uint32_t);
constexpr uint64_t kMaxMessageBytes =
    std::numeric_limits<int32_t>::max();  // the largest the largest that TensorFlow parses

// The checksum of an element: of its length as a number of eight bytes, whatever the varint, and of its message.
uint32_t ExtendByElement(uint32_t crc, absl::string_view message) {
  char length[sizeof(uint64_t)];
  StoreLittleEndian(uint64_t{message.size()}, length);
  return ExtendCrc32c(ExtendCrc32c(crc, absl::string_view(length, sizeof(length))), message);
}

absl::Status AtElement(uint64_t index, const absl::Status& status) {
  return Annotate(status, absl::StrCat("variant ", index));
}

// One element, and how it is stored.
struct StoredElement {
  absl::string_view message;
  absl::string_view checksum;
};
// Moves *rest past its first element and returns that.
absl::StatusOr<StoredElement> ConsumeElement(absl::string_view* rest) {
  uint64_t length = 0;
  if (!ParseCanonicalVarint(rest, &length)) return absl::DataLossError("its length is cut short or not canonical");
  if (rest->size() < kChecksumBytes || length > rest->size() - kChecksumBytes) {
    return absl::DataLossError(absl::StrCat("its length is ", length, ", and a checksum of 4 bytes follows; ",
                                            rest->size(), " bytes are left"));
  }
  const StoredElement element = {rest->substr(0, length), rest->substr(length, kChecksumBytes)};
  rest->remove_prefix(length + kChecksumBytes);
  return element;
}

}  // namespace

absl::Status AppendVariants(absl::Span<const Variant> values, ByteSink* sink, uint32_t* crc) {
  for (size_t i = 0; i < values.size(); ++i) {
    const absl::StatusOr<uint64_t> bytes = internal::MeasureObject(values[i], internal::kMaxWrittenDepth);
    if (!bytes.ok()) return AtElement(i, bytes.status());
    if (*bytes > kMaxMessageBytes) {
      return AtElement(i, absl::InvalidArgumentError(
                              absl::StrCat("its message has ", *bytes, " bytes; readers accept ", kMaxMessageBytes)));
    }
  }
  *crc = 0;
  std::string element;
  for (const Variant& value : values) {
    const uint64_t bytes = internal::ObjectSize(value);
    element.clear();
    AppendVarint(bytes, &element);
    const size_t start = element.size();
    element.resize(start + bytes);
    internal::WriteObject(value, &element[start]);
    *crc = ExtendByElement(*crc, absl::string_view(element).substr(start));
    char stored[kChecksumBytes];
    StoreLittleEndian(MaskCrc32c(*crc), stored);
    element.append(stored, sizeof(stored));
    *crc = ExtendCrc32c(*crc, absl::string_view(stored, sizeof(stored)));
    CASK_RETURN_IF_ERROR(sink->Append(element));
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredVariants> ParseVariants(absl::string_view stored, uint64_t count, bool verify) {
  StoredVariants variants;
  variants.elements = stored;
  variants.count = count;
  absl::string_view rest = stored;
  for (uint64_t i = 0; i < count; ++i) {
    const absl::StatusOr<StoredElement> element = ConsumeElement(&rest);
    if (!element.ok()) return AtElement(i, element.status());
    if (!verify) continue;
    variants.crc = ExtendByElement(variants.crc, element->message);
    const uint32_t found = MaskCrc32c(variants.crc);
    const auto wanted = LoadLittleEndian<uint32_t>(element->checksum.data());
    if (found != wanted) {
      return AtElement(i, absl::DataLossError(absl::StrCat("its checksum is ", absl::Hex(found, absl::kZeroPad8),
                                                           ", stored is ", absl::Hex(wanted, absl::kZeroPad8))));
    }
    variants.crc = ExtendCrc32c(variants.crc, element->checksum);
  }
  if (!rest.empty()) {
    return absl::DataLossError(absl::StrCat(rest.size(), " bytes are left after the last of its ", count, " variants"));
  }
  return variants;
}

absl::Status DecodeVariants(const StoredVariants& variants, const DecodeOptions& options, DecodeQuota* decoded,
                            Variant* out) {
  MessageQuota quota(options.limits);
  const internal::ObjectDecoding decoding = {options, options.limits.max_depth, /*is_checked=*/false, &quota};
  const auto objects = CheckedCast<int64_t>(variants.count);
  CASK_ANNOTATE_IF_ERROR(quota.Charge(objects ? CheckedMul<int64_t>(*objects, sizeof(Variant)) : std::nullopt, 0),
                         absl::StrCat("a tensor of ", variants.count, " variants"));
  const auto for_each = [&variants](absl::FunctionRef<absl::Status(uint64_t, absl::string_view)> visit) {
    absl::string_view rest = variants.elements;
    for (uint64_t i = 0; i < variants.count; ++i) {
      const absl::StatusOr<StoredElement> element = ConsumeElement(&rest);
      const absl::Status status = element.ok() ? visit(i, element->message) : element.status();
      if (status.ok()) continue;
      // A message whose fields disagree is damage, where it is in a file.
      return AtElement(i, absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status);
    }
    return absl::OkStatus();
  };
  CASK_RETURN_IF_ERROR(for_each([&decoding](uint64_t, absl::string_view message) {
    return internal::CheckObject(TypeTag<Variant>(), message, decoding);
  }));
  CASK_RETURN_IF_ERROR(decoded->Charge(quota.bytes() - variants.count * sizeof(Variant)));  // what is in the variants
  return for_each(
      [&](uint64_t i, absl::string_view message) { return internal::DecodeObject(message, decoding, &out[i]); });
}

}  // namespace tensorcask::checkpoint
