// Encodes elements that are objects: strings as their bytes, resources and variants as messages (FORMAT.md section
// 2.5). Internal.
//
//   CASK_ASSIGN_OR_RETURN(const uint64_t bytes, MeasureObject(variant, kMaxWrittenDepth));
//   std::string message(bytes, '\0');
//   WriteObject(variant, &message[0]);
//
// The two calls share no state: WriteObject measures nested messages again, at each level.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_OBJECT_ENCODER_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_OBJECT_ENCODER_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/protowire/wire_writer.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::internal {

// The depth of nested messages that readers accept by default (DecodeLimits::max_depth).
inline constexpr int kMaxWrittenDepth = 64;

// Resources are rare: their functions are compiled for size.

// The size of one object, without tag and length. Its message may contain `max_depth` levels of messages.
// Errors: InvalidArgument, naming the field, for what the message cannot hold (text that is not UTF-8, a dtype that
// TensorFlow does not have, more levels); FailedPrecondition for a tensor without data.
inline absl::StatusOr<uint64_t> MeasureObject(const std::string& text, int /*max_depth*/) { return text.size(); }
absl::StatusOr<uint64_t> MeasureObject(const ResourceHandle& handle, int max_depth);
absl::StatusOr<uint64_t> MeasureObject(const Variant& variant, int max_depth);

// The same for an object that was measured before without an error, or decoded.
inline uint64_t ObjectSize(const std::string& text) { return text.size(); }
uint64_t ObjectSize(const ResourceHandle& handle);
uint64_t ObjectSize(const Variant& variant);

// Writes the object; returns the end. Requires: MeasureObject returned OK, and the object has not changed since.
inline char* WriteObject(const std::string& text, char* out) {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}
char* WriteObject(const ResourceHandle& handle, char* out);
char* WriteObject(const Variant& variant, char* out);

// The error for messages nested deeper than kMaxWrittenDepth.
absl::Status TooDeepToWrite();

// The number of the repeated field of TensorProto for objects of `dtype`.
uint32_t ObjectFieldNumber(DType dtype);

// Calls fn(objects) with a span of the elements of `tensor`. Requires: IsObject(tensor.dtype()); tensor.IsContiguous().
template <typename Fn>
auto VisitObjects(const TensorView& tensor, Fn&& fn) {
  return VisitObjectDType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return fn(absl::Span<const T>(tensor.data<T>(), static_cast<size_t>(tensor.num_elements())));
  });
}

// WriteObjectList writes the list form, for tensor_content: the lengths of all objects as varints, then their bytes.
// WriteObjectFields writes each object as a field. Both return the end. Requires: the objects were measured or decoded.
template <typename T>
char* WriteObjectList(absl::Span<const T> objects, char* out) {
  for (const T& object : objects) out = WriteVarint(ObjectSize(object), out);
  for (const T& object : objects) out = WriteObject(object, out);
  return out;
}
template <typename T>
char* WriteObjectFields(absl::Span<const T> objects, char* out) {
  for (const T& object : objects) {
    out = WriteTag(ObjectFieldNumber(kDTypeOf<T>), WireType::kBytes, out);
    out = WriteVarint(ObjectSize(object), out);
    out = WriteObject(object, out);
  }
  return out;
}

// The crc32c of a tensor: of fixed-size elements as they are in memory; of objects in list form. Requires: `tensor` is
// contiguous; objects were measured or decoded.
uint32_t TensorCrc32c(const TensorView& tensor);
// The same for any view. Errors: those of TensorView::Contiguous.
absl::StatusOr<uint32_t> ViewCrc32c(const TensorView& view);

// Fills *content with the `bytes` bytes of tensor_content for these elements: row-major, objects in list form.
// Errors: those of CopyRowMajor. Requires: objects are contiguous, and were measured.
absl::Status SetContent(const TensorView& tensor, uint64_t bytes, std::string* content);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_OBJECT_ENCODER_H_
