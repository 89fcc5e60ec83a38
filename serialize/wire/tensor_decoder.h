// From the fields of a TensorProto to a tensor, whichever front end read them. Internal.
//
//   TensorDecoder decoder(fields, options);
//   CASK_RETURN_IF_ERROR(decoder.Check());                      // measures; takes no memory
//   CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(decoder.dtype(), decoder.shape(), options.allocator));
//   CASK_RETURN_IF_ERROR(decoder.Write(&tensor));

#ifndef TENSORCASK_SERIALIZE_WIRE_TENSOR_DECODER_H_
#define TENSORCASK_SERIALIZE_WIRE_TENSOR_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/tensor_fields.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::internal {

class TensorDecoder {
 public:
  // `fields` and `options` must outlive this.
  TensorDecoder(const TensorFields& fields, const DecodeOptions& options) : fields_(fields), options_(options) {}

  // Everything that can be wrong with the message but its checksum. Errors: as DecodeTensor.
  absl::Status Check();

  // Known after Check.
  DType dtype() const { return dtype_; }
  const TensorShape& shape() const { return shape_; }

  // Writes all elements. Requires: Check was OK, and *out has dtype() and shape().
  // Errors: ResourceExhausted if *out cannot be made writable; DataLoss for a wrong checksum.
  absl::Status Write(Tensor* out) const;

  // Check, a new tensor, Write.
  absl::StatusOr<Tensor> Decode();

 private:
  absl::Status CheckForm();  // plain, guarded, encoded, or none of these; sets dtype_
  absl::Status CheckOtherFields() const;
  absl::Status CheckStrings();
  absl::Status CheckStringContent(uint64_t* characters) const;
  absl::Status CheckFixedSize();
  absl::Status CheckContent() const;
  absl::Status CheckCount(ValueField field, size_t values_per_element);  // sets num_given_
  template <typename Traits>
  absl::Status CheckRange() const;
  // `bytes` are what the elements take; `unbacked` how much of that no input stands for. Empty: past int64.
  absl::Status CheckLimits(std::optional<int64_t> bytes, std::optional<int64_t> unbacked) const;

  template <typename Traits>
  void WriteValues(char* out) const;
  void WriteStringContent(std::string* out) const;
  void WriteStringValues(std::string* out) const;

  std::string Describe() const;  // "float32 [2,3]"

  const TensorFields& fields_;
  const DecodeOptions& options_;
  DType dtype_ = DType::kInvalid;
  TensorShape shape_;
  bool uses_content_ = false;
  size_t num_given_ = 0;  // elements that stand in the typed field; the last one fills the rest
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_TENSOR_DECODER_H_
