#include "tensorcask/serialize/wire/message/payload_field.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/payload/payload_encoder.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::internal {
namespace {

absl::Status InPayload(const absl::Status& status) { return status.ok() ? status : Annotate(status, "payload"); }

// Memory that grows, up to a number of bytes.
class MemorySink final : public ByteSink {
 public:
  explicit MemorySink(size_t max_bytes) : max_bytes_(max_bytes) {}

  absl::Status Append(absl::string_view bytes) override {
    if (status_.ok()) status_ = Reserve(bytes.size());
    if (!status_.ok() || bytes.empty()) return status_;
    std::memcpy(static_cast<char*>(buffer_->mutable_data()) + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
    return absl::OkStatus();
  }
  uint64_t position() const override { return size_; }

  bool is_full() const { return is_full_; }  // something did not fit
  absl::StatusOr<TensorView> View() const {
    return TensorView::Create(buffer_, DType::kUint8, Layout::RowMajor(TensorShape({static_cast<int64_t>(size_)})));
  }

 private:
  static constexpr size_t kFirstBytes = size_t{16} << 10;

  absl::Status Reserve(size_t bytes) {
    if (bytes > max_bytes_ - size_) {
      is_full_ = true;
      return absl::ResourceExhaustedError(absl::StrCat("it takes more than ", max_bytes_, " bytes"));
    }
    const size_t capacity = buffer_ ? buffer_->size_bytes() : 0;
    if (bytes <= capacity - size_) return absl::OkStatus();
    const size_t wanted = std::min(max_bytes_, std::max({size_ + bytes, 2 * capacity, kFirstBytes}));
    CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> larger, TensorBuffer::Allocate(wanted));
    if (size_ > 0) std::memcpy(larger->mutable_data(), buffer_->data(), size_);
    buffer_ = larger;
    return absl::OkStatus();
  }

  const size_t max_bytes_;
  RefPtr<TensorBuffer> buffer_;
  size_t size_ = 0;
  bool is_full_ = false;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::optional<TensorView>> EncodePayloadField(const TensorView& view, absl::string_view name,
                                                             const EncodeOptions& options, uint64_t plain_bytes) {
  PayloadWriteOptions write;
  write.payload = options.payload;
  write.name = std::string(name);
  write.num_threads = options.num_threads;
  MemorySink sink(static_cast<size_t>(plain_bytes - plain_bytes / 50));
  const absl::StatusOr<std::optional<PayloadSummary>> written = EncodePayload(view, write, &sink);
  if (sink.is_full()) return std::nullopt;
  if (!written.ok()) return InPayload(written.status());
  if (!written->has_value()) return std::nullopt;
  return sink.View();
}

absl::StatusOr<PayloadReader> OpenPayloadField(absl::string_view payload, DType dtype, const TensorShape& shape,
                                               const DecodeOptions& options) {
  PayloadReadOptions read_options;
  read_options.limits = options.limits;
  read_options.num_threads = options.num_threads;
  absl::StatusOr<PayloadReader> reader = PayloadReader::Open(payload, read_options);
  if (!reader.ok()) return InPayload(reader.status());
  const PayloadHeader& header = reader->header();
  if (header.dtype == dtype && header.num_elements == static_cast<uint64_t>(shape.num_elements())) return reader;
  return InPayload(
      absl::InvalidArgumentError(absl::StrCat("it has ", header.num_elements, " elements of ", DTypeName(header.dtype),
                                              "; the message says ", DTypeName(dtype), " ", shape.ToString())));
}

absl::Status SetPayloadBase(const BaseLookup* base, absl::string_view name, PayloadReader* reader) {
  return InPayload(reader->SetBase(base, name));
}

absl::Status ReadPayloadField(const PayloadReader& reader, TensorView* out) { return InPayload(reader.ReadInto(out)); }

int64_t UnbackedPayloadBytes(uint64_t decoded_bytes, uint64_t payload_bytes, const DecodeLimits& limits) {
  const std::optional<int64_t> backed =
      CheckedMul(static_cast<int64_t>(payload_bytes), std::max<int64_t>(limits.max_expansion, 0));
  if (!backed.has_value()) return 0;
  return std::max<int64_t>(static_cast<int64_t>(decoded_bytes) - *backed, 0);
}

}  // namespace tensorcask::internal
