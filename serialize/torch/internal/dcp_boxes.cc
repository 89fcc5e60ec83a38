#include "tensorcask/serialize/torch/internal/dcp_items.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/stored/boxes.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::torch {

uint64_t DcpBoxes::BytesOf(const DcpTensor& tensor, size_t box) {
  uint64_t bytes = ElementSize(tensor.dtype);
  for (const int64_t size : tensor.boxes[box].sizes) bytes *= static_cast<uint64_t>(size);
  return bytes;
}

absl::StatusOr<std::shared_ptr<const TorchReader>> DcpBoxes::Open(const DcpTensor& tensor, size_t box,
                                                                  uint64_t wanted) const {
  constexpr size_t kMostOpen = 256;
  const DcpItem& item = tensor.items[box];
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = open_.find(&item); found != open_.end()) return found->second;
  }
  DecodeQuota decoded =
      DecodeQuota::ForUnbacked(options_.limits, CheckedAdd(item.size_bytes, wanted).value_or(item.size_bytes));
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const TorchReader> reader, items_->Open(item, &decoded));
  const std::vector<int64_t>& sizes = tensor.boxes[box].sizes;
  const std::string place = absl::StrCat("the file at ", item.offset, " of ", items_->PathOf(item));
  if (reader->has_names()) return absl::DataLossError(absl::StrCat(place, " has something that is not one tensor"));
  const TorchEntry& entry = reader->entries()[0];
  if (entry.dtype != tensor.dtype || entry.shape.dims() != absl::MakeConstSpan(sizes)) {
    return absl::DataLossError(absl::StrCat(place, " has ", DTypeName(entry.dtype), " ", entry.shape.ToString(),
                                            "; the metadata says ", DTypeName(tensor.dtype), " [",
                                            absl::StrJoin(sizes, ","), "]"));
  }
  CASK_RETURN_IF_ERROR(Annotate(entry.read_status, place));
  const std::lock_guard<std::mutex> lock(mutex_);
  // What was decoded is in memory: one of those is enough.
  if (open_.size() >= kMostOpen || DcpItems::IsCompressed(item)) open_.clear();
  open_.emplace(&item, reader);
  return reader;
}

absl::Status DcpBoxes::ReadInto(const DcpTensor& tensor, const TensorSlice& slice, TensorView* out) const {
  return stored::ReadSliceFromBoxes(
      tensor.boxes, slice,
      [&](size_t box, const TensorSlice& part, TensorView* to) -> absl::Status {
        const uint64_t bytes = static_cast<uint64_t>(to->num_elements()) * ElementSize(tensor.dtype);
        CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const TorchReader> file, Open(tensor, box, bytes));
        return part.IsFull() ? file->ReadInto("", to) : file->ReadSliceInto("", part, to);
      },
      out);
}

absl::Status DcpBoxes::Verify(const DcpTensor& tensor, size_t box) const {
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const TorchReader> file, Open(tensor, box, BytesOf(tensor, box)));
  return DcpItems::Verify(*file);
}

class DcpBoxes::RowStream final : public ElementStream {
 public:
  RowStream(const DcpBoxes* boxes, const DcpTensor& tensor, AddPlace add_place)
      : boxes_(boxes), tensor_(tensor), add_place_(std::move(add_place)) {
    for (size_t box = 0; box < tensor.boxes.size(); ++box) {
      if (!stored::IsEmpty(tensor.boxes[box])) order_.push_back(box);
    }
    if (tensor.shape.rank() == 0) return;
    std::sort(order_.begin(), order_.end(),
              [&](size_t a, size_t b) { return tensor.boxes[a].offsets[0] < tensor.boxes[b].offsets[0]; });
  }

  absl::Status Read(absl::Span<char> out) override {
    while (!out.empty()) {
      if (left_ == 0) CASK_RETURN_IF_ERROR(add_place_(Next()));
      if (left_ == 0) return add_place_(absl::InvalidArgumentError("fewer elements are left"));
      const size_t count = static_cast<size_t>(std::min<uint64_t>(left_, out.size()));
      if (stream_ != nullptr) {
        CASK_RETURN_IF_ERROR(add_place_(stream_->Read(out.subspan(0, count))));
      } else {
        std::memcpy(out.data(), whole_->bytes().data() + (whole_bytes_ - left_), count);
      }
      left_ -= count;
      out.remove_prefix(count);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    do {
      CASK_RETURN_IF_ERROR(add_place_(Next()));
    } while (left_ > 0);
    return absl::OkStatus();
  }

 private:
  // Ends the box that is open, and opens the next. left_ is 0 if there is none.
  absl::Status Next() {
    left_ = 0;
    if (stream_ != nullptr) CASK_RETURN_IF_ERROR(stream_->Finish());
    stream_ = nullptr;
    whole_.reset();
    file_ = nullptr;
    if (next_ == order_.size()) return absl::OkStatus();
    const size_t box = order_[next_++];
    CASK_ASSIGN_OR_RETURN(file_, boxes_->Open(tensor_, box, BytesOf(tensor_, box)));
    CASK_ASSIGN_OR_RETURN(stream_, file_->OpenStream(""));
    if (stream_ == nullptr) {
      CASK_ASSIGN_OR_RETURN(whole_, file_->Read(""));
    }
    left_ = BytesOf(tensor_, box);
    whole_bytes_ = left_;
    return absl::OkStatus();
  }

  const DcpBoxes* const boxes_;
  const DcpTensor& tensor_;
  const AddPlace add_place_;
  std::vector<size_t> order_;  // boxes that have elements, from the first row on
  size_t next_ = 0;
  std::shared_ptr<const TorchReader> file_;
  std::unique_ptr<ElementStream> stream_;  // for the box that is open; null: `whole_` has it
  std::optional<Tensor> whole_;
  uint64_t whole_bytes_ = 0;
  uint64_t left_ = 0;  // bytes of the box that is open
};

std::unique_ptr<ElementStream> DcpBoxes::OpenRows(const DcpTensor& tensor, AddPlace add_place) const {
  return std::make_unique<RowStream>(this, tensor, std::move(add_place));
}

}  // namespace tensorcask::torch
