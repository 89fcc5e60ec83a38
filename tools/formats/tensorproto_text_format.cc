#include "tensorcask/tools/formats/tensorproto_text_format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/repeated_field.h"
#include "google/protobuf/text_format.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/archive/formats/message_file.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/message/first_text_error.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tools/formats/text_memory.h"

namespace tensorcask::tools {
namespace {

// A parsed text message takes many times the size of the text in memory.
constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;

absl::StatusOr<DecodedTensor> DecodeText(absl::string_view text, const DecodeOptions& options) {
  CASK_RETURN_IF_ERROR(CheckTextMemory(text, options.limits));
  google::protobuf::TextFormat::Parser parser;
  FirstTextError error;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(options.limits.max_depth);
  TensorProto proto;
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&input, &proto)) {
    return absl::InvalidArgumentError(absl::StrCat("not a TensorProto in text form: ", error.text()));
  }
  return DecodeTensorWithMetadata(proto, options);
}

// True if text keeps each bit: of a NaN it keeps neither sign nor payload.
template <typename T>
bool TextKeeps(const google::protobuf::RepeatedField<T>& values) {
  const T nan = std::numeric_limits<T>::quiet_NaN();  // what the parser makes of "nan"
  return std::all_of(values.begin(), values.end(),
                     [&](const T& value) { return !std::isnan(value) || std::memcmp(&value, &nan, sizeof(T)) == 0; });
}

absl::Status EncodeText(const DecodedTensor& tensor, const EncodeOptions& options, ByteSink* sink) {
  std::string text;
  TensorProto proto;
  TensorMetadata metadata = tensor.metadata;
  // TensorFlow's parser refuses text with a field that it does not know, for a mark that only NumPy's formats need.
  if (tensor.view.dtype() == DType::kString) metadata.attributes.erase(kNpyDescrAttribute);
  EncodeOptions encode = options;
  encode.representation = Representation::kValues;  // numbers that a user can read and edit
  CASK_RETURN_IF_ERROR(EncodeTensor(tensor.view, metadata, encode, &proto));
  if (!TextKeeps(proto.float_val()) || !TextKeeps(proto.double_val()) || !TextKeeps(proto.scomplex_val()) ||
      !TextKeeps(proto.dcomplex_val())) {
    encode.representation = Representation::kContent;
    CASK_RETURN_IF_ERROR(EncodeTensor(tensor.view, metadata, encode, &proto));
  }
  if (!google::protobuf::TextFormat::PrintToString(proto, &text)) {
    return absl::InternalError("protobuf could not print the message");
  }
  return sink->Append(text);
}

}  // namespace

ArchiveTraits TensorProtoTextArchiveFormat::traits() const { return MessageTraits(); }

absl::StatusOr<std::unique_ptr<ArchiveReader>> TensorProtoTextArchiveFormat::Open(
    const std::string& path, const ArchiveReaderOptions& options) const {
  return OpenMessageFile(name(), path, kMaxTextBytes, options, DecodeText);
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> TensorProtoTextArchiveFormat::Create(
    const std::string& path, const ArchiveWriterOptions& options) const {
  return CreateMessageFile(path, options, EncodeText);
}

}  // namespace tensorcask::tools
