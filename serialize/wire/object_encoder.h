// Elements that are objects as bytes: strings as they are, resources and variants as messages (FORMAT.md section 2.5).
// Internal.
//
//   CASK_ASSIGN_OR_RETURN(const uint64_t bytes, MeasureObject(variant, kMaxWrittenDepth));
//   std::string message(bytes, '\0');
//   WriteObject(variant, &message[0]);
//
// Nothing is kept between the two: writing measures what is nested once more, at each level.

#ifndef TENSORCASK_SERIALIZE_WIRE_OBJECT_ENCODER_H_
#define TENSORCASK_SERIALIZE_WIRE_OBJECT_ENCODER_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/wire/wire_writer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::internal {

// Messages in messages, as deep as readers take by default (DecodeLimits::max_depth).
inline constexpr int kMaxWrittenDepth = 64;

// The bytes of one object, without tag and length; messages may have `max_depth` more in them. Errors: InvalidArgument,
// naming the field, for what the message cannot hold (text that is not UTF-8, a dtype of ours, more depth);
// FailedPrecondition for a tensor without data.
inline absl::StatusOr<uint64_t> MeasureObject(const std::string& text, int /*max_depth*/) { return text.size(); }
absl::StatusOr<uint64_t> MeasureObject(const ResourceHandle& handle, int max_depth);
absl::StatusOr<uint64_t> MeasureObject(const Variant& variant, int max_depth);

// The same of an object that was measured before without an error, or decoded.
inline uint64_t ObjectSize(const std::string& text) { return text.size(); }
uint64_t ObjectSize(const ResourceHandle& handle);
uint64_t ObjectSize(const Variant& variant);

// Writes those bytes; returns the end. Requires: MeasureObject was OK, and nothing has changed.
inline char* WriteObject(const std::string& text, char* out) {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}
char* WriteObject(const ResourceHandle& handle, char* out);
char* WriteObject(const Variant& variant, char* out);

// The error for more depth than that.
absl::Status TooDeepToWrite();

// The field of TensorProto with the values of a dtype of objects, each in a field of its own.
uint32_t ObjectFieldNumber(DType dtype);

// Calls fn(objects) with the elements of `tensor` as a span of their class. Requires: IsObject(tensor.dtype());
// tensor.IsContiguous().
template <typename Fn>
auto VisitObjects(const TensorView& tensor, Fn&& fn) {
  return VisitObjectDType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return fn(absl::Span<const T>(tensor.data<T>(), static_cast<size_t>(tensor.num_elements())));
  });
}

// The list form, which tensor_content holds: a length as varint for each, then the bytes. Both return the end, and
// require that the objects were measured or decoded.
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

// The crc32c of a tensor: of fixed-size elements as they stand in memory; of objects in list form. Requires: a
// contiguous view; objects were measured or decoded.
uint32_t TensorCrc32c(const TensorView& tensor);
// The same of any view. Errors: as TensorView::Contiguous.
absl::StatusOr<uint32_t> ViewCrc32c(const TensorView& view);

// Fills *content with what tensor_content holds of these elements, of which `bytes` is the size: row-major, objects in
// list form. Errors: as CopyRowMajor. Requires: objects are contiguous, and were measured.
absl::Status SetContent(const TensorView& tensor, uint64_t bytes, std::string* content);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_OBJECT_ENCODER_H_
