#include "tensorcask/serialize/wire/message/message_frame.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/message/message_form.h"
#include "tensorcask/serialize/wire/message/metadata_decoder.h"
#include "tensorcask/serialize/wire/message/tensor_encoder.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::internal {
namespace {

constexpr size_t kMaxOtherBytes = size_t{1} << 20;
constexpr int kMaxFields = 1000;

// The fields of a message in a file, its content apart.
struct SplitFields {
  std::string others;  // unchanged, in order
  bool has_content = false;
  uint64_t content_offset = 0;
  uint64_t content_bytes = 0;
};

// Reads the fields one after the other.
class FieldSplitter {
 public:
  FieldSplitter(const ByteSource& file, uint64_t offset, uint64_t bytes) : file_(file), next_(offset), left_(bytes) {}

  // False: the message cannot be split.
  absl::StatusOr<bool> Split(SplitFields* out) {
    for (int count = 0; left_ > 0; ++count) {
      if (count == kMaxFields) return false;
      CASK_ASSIGN_OR_RETURN(const bool is_split, SplitField(out));
      if (!is_split) return false;
    }
    return out->has_content;
  }

 private:
  absl::StatusOr<bool> SplitField(SplitFields* out) {
    constexpr size_t kMaxTagAndVarint = 16;  // 5 and 10, and one for a tag of six bytes, which the reader refuses
    char bytes[kMaxTagAndVarint];
    const auto size = static_cast<size_t>(std::min<uint64_t>(left_, sizeof(bytes)));
    CASK_RETURN_IF_ERROR(file_.ReadAt(next_, absl::MakeSpan(bytes, size)));
    absl::string_view rest(bytes, size);
    uint64_t tag = 0;
    uint64_t value = 0;
    if (!ParseVarint(&rest, &tag) || tag > UINT32_MAX) return false;
    uint64_t payload_bytes = 0;
    switch (static_cast<WireType>(tag & 7)) {
      case WireType::kVarint:
        if (!ParseVarint(&rest, &value)) return false;
        break;
      case WireType::kFixed64:
        payload_bytes = sizeof(uint64_t);
        break;
      case WireType::kFixed32:
        payload_bytes = sizeof(uint32_t);
        break;
      case WireType::kBytes:
        if (!ParseVarint(&rest, &payload_bytes)) return false;
        break;
      default:
        return false;
    }
    const uint64_t header_bytes = size - rest.size();
    if (payload_bytes > left_ - header_bytes) return false;
    if (static_cast<WireType>(tag & 7) == WireType::kBytes && tag >> 3 == kContentNumber) {
      if (out->has_content) return false;
      out->has_content = true;
      out->content_offset = next_ + header_bytes;
      out->content_bytes = payload_bytes;
    } else {
      if (payload_bytes > kMaxOtherBytes - std::min<uint64_t>(out->others.size() + header_bytes, kMaxOtherBytes))
        return false;
      const size_t end = out->others.size();
      out->others.resize(end + static_cast<size_t>(header_bytes + payload_bytes));
      CASK_RETURN_IF_ERROR(file_.ReadAt(next_, absl::MakeSpan(&out->others[end], out->others.size() - end)));
    }
    next_ += header_bytes + payload_bytes;
    left_ -= header_bytes + payload_bytes;
    return true;
  }

  const ByteSource& file_;
  uint64_t next_;  // in the file
  uint64_t left_;  // what is left of the message
};

// True if the fields are those of a tensor whose elements are all in its content, row-major.
bool IsRowMajorContent(const TensorFields& fields, DType dtype) {
  const ExtensionFields& extension = fields.extension;
  for (uint32_t number = kFirstValueField; number <= kLastValueField; ++number) {
    if (fields.count(static_cast<ValueField>(number)) > 0) return false;
  }
  return IsFixedSize(dtype) && extension.num_strides == 0 && extension.storage_offset == 0 && extension.crc32c == 0;
}

}  // namespace

absl::StatusOr<MessageFrame> MakeMessageFrame(DType dtype, const TensorShape& shape, const TensorMetadata& metadata) {
  CASK_ASSIGN_OR_RETURN(const MessagePlan plan, PlanFrame(dtype, shape, metadata));
  MessageFrame frame;
  frame.content_bytes = plan.data_bytes;
  frame.header.resize(static_cast<size_t>(plan.header_bytes()));
  frame.tail.resize(static_cast<size_t>(plan.tail_bytes()));
  const char* const end = WriteHeader(plan, &frame.header[0]);
  CASK_CHECK(end == frame.header.data() + frame.header.size(), "MakeMessageFrame: the header has another size");
  WriteTail(plan, /*crc=*/0, &frame.tail[0]);
  return frame;
}

absl::StatusOr<std::optional<StoredContent>> FindContent(const ByteSource& file, uint64_t offset,
                                                         uint64_t message_bytes, const DecodeOptions& options) {
  SplitFields split;
  CASK_ASSIGN_OR_RETURN(const bool is_split, FieldSplitter(file, offset, message_bytes).Split(&split));
  WireTensorFields fields;
  if (!is_split || !fields.Read(split.others, options.limits.max_depth).ok()) return std::nullopt;
  absl::StatusOr<TensorShape> shape = ShapeFromFields(fields.shape, /*lenient=*/false);
  if (!shape.ok()) return std::nullopt;
  // The form of a message with content: a payload beside content is refused as it is without.
  const absl::StatusOr<FormAndDType> form = FindForm(fields);
  if (!form.ok() || form->form == MessageForm::kEncoded) return std::nullopt;
  if (!IsRowMajorContent(fields, form->dtype)) return std::nullopt;
  const std::optional<int64_t> bytes =
      CheckedMul(shape->num_elements(), static_cast<int64_t>(ElementSize(form->dtype)));
  if (!bytes.has_value() || static_cast<uint64_t>(*bytes) != split.content_bytes) return std::nullopt;
  StoredContent content;
  content.dtype = form->dtype;
  content.shape = *std::move(shape);
  content.metadata_status =
      DecodeReadableMetadata(fields, content.dtype, content.shape.rank(), options, &content.metadata);
  if (!content.metadata_status.ok() && options.unreadable_metadata == UnreadableMetadata::kRefuse) return std::nullopt;
  content.offset = split.content_offset;
  content.bytes = split.content_bytes;
  return content;
}

}  // namespace tensorcask::internal
