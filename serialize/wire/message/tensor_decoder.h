// Decodes the fields of a TensorProto, which either front end has read, to a tensor. Internal.
//
//   TensorDecoder decoder(fields, options);
//   CASK_ASSIGN_OR_RETURN(DecodedTensor decoded, decoder.DecodeWithMetadata());
//
// or, into existing memory:
//
//   CASK_RETURN_IF_ERROR(decoder.Check());  // allocates no memory for elements (but copies a strided base of a delta)
//   if (decoder.is_row_major()) CASK_RETURN_IF_ERROR(decoder.Write(&tensor));

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_TENSOR_DECODER_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_TENSOR_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/message/device_payload.h"
#include "tensorcask/serialize/wire/message/message_form.h"
#include "tensorcask/serialize/wire/message/object_decoder.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::internal {

class TensorDecoder {
 public:
  // `fields` and `options` must outlive this.
  TensorDecoder(const TensorFields& fields, const DecodeOptions& options)
      : TensorDecoder(fields, options, options.limits.max_depth, &own_quota_) {}
  // For a message inside another one, which may have `max_depth` more levels in it. Its memory is charged to *quota;
  // null: it was charged before.
  TensorDecoder(const TensorFields& fields, const DecodeOptions& options, int max_depth, MessageQuota* quota)
      : fields_(fields),
        target_(options),
        options_(target_.on_host()),
        max_depth_(max_depth),
        own_quota_(options.limits),
        quota_(quota) {}
  TensorDecoder(const TensorDecoder&) = delete;
  TensorDecoder& operator=(const TensorDecoder&) = delete;

  // Finds every error in the message except a wrong checksum and faults in the chunks of a payload. Errors: those of
  // DecodeTensor.
  absl::Status Check();

  // Known after Check.
  DType dtype() const { return dtype_; }
  const TensorShape& shape() const { return shape_; }
  bool is_row_major() const { return layout_.IsContiguous(); }  // false: extension-only, with strides
  bool is_encoded() const { return form_ == MessageForm::kEncoded; }
  // True if the message is a delta whose base shares a buffer with `out`. Requires: Check was OK.
  bool HasBaseIn(const TensorView& out) const {
    return payload_ && payload_->base() != nullptr && payload_->base()->elements().SharesBufferWith(out);
  }

  // Writes all elements in the order of the message. Requires: Check returned OK; *out has dtype() and shape().
  // Errors: ResourceExhausted if *out cannot be made writable; DataLoss for a wrong checksum.
  absl::Status Write(Tensor* out) const;

  // Writes all elements of an encoded message; *out may have any strides. Requires: as Write; is_encoded(); no two
  // indices of *out refer to the same element; !HasBaseIn(*out).
  // Errors: those of Write; those of the payload.
  absl::Status WritePayload(TensorView* out) const;

  // Check, allocate, Write; all but DecodeView then copy the elements to the device if options.allocator belongs to
  // one. Decode gathers elements with strides into row-major order.
  absl::StatusOr<Tensor> Decode();
  // Decode, for a message that has passed Check before.
  absl::StatusOr<Tensor> DecodeChecked();
  absl::StatusOr<TensorView> DecodeView();
  absl::StatusOr<DecodedTensor> DecodeWithMetadata();
  // The same, but the elements stay in the content of the message if they have a fixed size and are aligned there;
  // `owner` then keeps that memory alive. Unless the memory is `writable`, the first write to the tensor copies the
  // elements.
  absl::StatusOr<DecodedTensor> DecodeInPlace(const RefPtr<RefCounted>& owner, bool writable);

 private:
  bool is_extension_only() const { return form_ == MessageForm::kExtensionOnly; }
  absl::Status CheckForm();                    // sets form_, dtype_
  absl::Status CheckLayout();                  // sets layout_
  absl::Status CheckPayload();                 // sets payload_
  absl::StatusOr<TensorView> NewView() const;  // on the host. Requires: Check was OK
  absl::StatusOr<Tensor> NewTensor() const;    // where options.allocator allocates
  absl::StatusOr<DecodedTensor> DecodeCheckedWithMetadata();
  absl::Status SetMetadata(DecodedTensor* decoded) const;
  absl::Status CheckCrc32c(uint32_t found) const;
  absl::Status CheckOtherFields() const;
  absl::Status CheckThis();     // everything except the content of resources and variants
  absl::Status CheckObjects();  // their number and sizes
  absl::Status CheckObjectList() const;
  absl::Status CheckInsideObjects() const;
  absl::Status CheckFixedSize();
  absl::Status CheckContent() const;
  absl::Status CheckCount(ValueField field, size_t values_per_element);  // sets num_given_
  // Checks the values of a field of int32.
  absl::Status CheckRange(ValueField field, int32_t least, int32_t most) const;
  // `bytes`: the size of the elements; `unbacked`: the part of it that no input byte stands for. Empty: beyond int64.
  absl::Status CheckLimits(std::optional<int64_t> bytes, std::optional<int64_t> unbacked) const;

  // Calls visit(index, bytes) for the objects in the message, in order, until it returns an error.
  using ObjectVisitor = absl::FunctionRef<absl::Status(size_t index, absl::string_view bytes)>;
  absl::Status ForEachObject(ObjectVisitor visit) const;
  ObjectDecoding Objects() const;

  template <typename Traits>
  void WriteValues(char* out) const;
  template <typename T>
  absl::Status WriteObjects(T* out) const;

  std::string Describe() const;  // "float32 [2,3]"

  const TensorFields& fields_;
  const DecodeTarget target_;
  const DecodeOptions& options_;  // those for the host
  const int max_depth_;           // messages that may be in this one
  MessageQuota own_quota_;
  MessageQuota* const quota_;
  DType dtype_ = DType::kInvalid;
  TensorShape shape_;
  Layout layout_;  // that of the elements in the order of the message
  MessageForm form_ = MessageForm::kPlain;
  std::optional<PayloadReader> payload_;  // for the encoded form
  bool uses_content_ = false;
  size_t num_given_ = 0;  // elements in the typed field, before the fill rules
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_TENSOR_DECODER_H_
