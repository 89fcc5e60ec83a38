#include "tensorcask/serialize/npy/npy_writer.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/npy/internal/npy_dtypes.h"
#include "tensorcask/serialize/npy/internal/npy_encoder.h"
#include "tensorcask/serialize/stored/writer_state.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

absl::Status EncodeNpy(const TensorView& tensor, const NpyFormat& format, const TensorMetadata& metadata,
                       ByteSink* sink) {
  CASK_ASSIGN_OR_RETURN(const npy::NpyEncoder encoder, npy::NpyEncoder::Create(tensor, format, metadata));
  CASK_RETURN_IF_ERROR(sink->Append(encoder.header()));
  return encoder.Encode(tensor, [&](absl::string_view bytes) { return sink->Append(bytes); });
}

absl::Status CheckNpyShape(const TensorShape& shape) { return npy::CheckShape(shape); }

absl::Status CheckNpyStrings(const TensorView& strings) {
  return npy::NpyEncoder::Create(strings, NpyFormat(), TensorMetadata()).status();
}

class NpyWriter::Impl {
 public:
  Impl(std::string path, const NpyWriterOptions& options)
      : path_(std::move(path)),
        format_(options.format),
        publish_({options.file_system, options.sync, options.overwrite}),
        state_(path_) {}

  absl::Status Open() {
    CASK_RETURN_IF_ERROR(npy::CheckFormat(format_));
    CASK_ASSIGN_OR_RETURN(sink_, publish_.Add(path_));
    return absl::OkStatus();
  }

  absl::Status Add(const TensorView& tensor, const TensorMetadata& metadata) {
    CASK_RETURN_IF_ERROR(state_.status());
    if (has_array_) return absl::FailedPreconditionError(absl::StrCat(path_, ": an npy file holds one array"));
    CASK_ASSIGN_OR_RETURN(const npy::NpyEncoder encoder, npy::NpyEncoder::Create(tensor, format_, metadata));
    has_array_ = true;
    CASK_RETURN_IF_ERROR(state_.Keep(Begin(encoder)));
    return state_.Keep(Append(encoder, tensor));
  }

  absl::Status AddSlice(const TensorShape& full_shape, const TensorSlice& slice, const TensorView& tensor,
                        const TensorMetadata& metadata) {
    CASK_RETURN_IF_ERROR(state_.status());
    CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(full_shape));
    if (tensor.shape() != shape || (order_ && (order_->shape() != full_shape || tensor.dtype() != dtype_))) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": the piece ", slice.ToString(), " of ",
                                                     full_shape.ToString(), " does not fit ", tensor.ToString()));
    }
    if (!has_array_ && shape == full_shape) return Add(tensor, metadata);
    if (has_array_ && !order_)
      return absl::FailedPreconditionError(absl::StrCat(path_, ": an npy file holds one array"));
    if (!order_) {
      CASK_ASSIGN_OR_RETURN(encoder_, npy::NpyEncoder::CreateForPieces(tensor.dtype(), full_shape, format_, metadata));
      order_.emplace(full_shape);
      dtype_ = tensor.dtype();
      has_array_ = true;
      CASK_RETURN_IF_ERROR(state_.Keep(Begin(*encoder_)));
    }
    CASK_RETURN_IF_ERROR(order_->Next(slice));
    return state_.Keep(Append(*encoder_, tensor));
  }

  absl::Status Finish() {
    CASK_RETURN_IF_ERROR(state_.status());
    if (!has_array_) return absl::FailedPreconditionError(absl::StrCat(path_, ": no array was added"));
    if (order_ && !order_->is_complete()) {
      return absl::FailedPreconditionError(absl::StrCat(path_, ": pieces of the array are missing"));
    }
    return state_.Finish(publish_.Commit());
  }

 private:
  absl::Status Begin(const npy::NpyEncoder& encoder) {
    sink_->ReserveHint(encoder.header().size() + encoder.data_bytes());
    return sink_->Append(encoder.header());
  }
  absl::Status Append(const npy::NpyEncoder& encoder, const TensorView& tensor) {
    return encoder.Encode(tensor, [&](absl::string_view bytes) { return sink_->Append(bytes); });
  }

  const std::string path_;
  const NpyFormat format_;
  Publication publish_;
  FileSink* sink_ = nullptr;
  bool has_array_ = false;
  stored::WriterState state_;
  // For an array in pieces.
  std::optional<npy::NpyEncoder> encoder_;
  std::optional<npy::PieceOrder> order_;
  DType dtype_ = DType::kInvalid;
};

NpyWriter::NpyWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NpyWriter::NpyWriter(NpyWriter&&) noexcept = default;
NpyWriter& NpyWriter::operator=(NpyWriter&&) noexcept = default;
NpyWriter::~NpyWriter() = default;

absl::StatusOr<NpyWriter> NpyWriter::Create(const std::string& path, const NpyWriterOptions& options) {
  auto impl = std::make_unique<Impl>(path, options);
  CASK_RETURN_IF_ERROR(impl->Open());
  return NpyWriter(std::move(impl));
}

bool NpyWriter::HoldsDType(DType dtype) { return npy::DescrOf(dtype, NpyFormat(), /*time_descr=*/"").ok(); }

absl::Status NpyWriter::Add(const TensorView& tensor, const TensorMetadata& metadata) {
  return impl_->Add(tensor, metadata);
}

absl::Status NpyWriter::AddSlice(const TensorShape& full_shape, const TensorSlice& slice, const TensorView& tensor,
                                 const TensorMetadata& metadata) {
  return impl_->AddSlice(full_shape, slice, tensor, metadata);
}

absl::Status NpyWriter::Finish() { return impl_->Finish(); }

absl::Status WriteNpy(const std::string& path, const TensorView& tensor, const NpyWriterOptions& options) {
  CASK_ASSIGN_OR_RETURN(NpyWriter writer, NpyWriter::Create(path, options));
  CASK_RETURN_IF_ERROR(writer.Add(tensor));
  return writer.Finish();
}

}  // namespace tensorcask
