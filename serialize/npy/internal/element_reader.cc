#include "tensorcask/serialize/npy/internal/element_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/npy/internal/literal_parser.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::npy {
namespace {

constexpr size_t kMaxRanges = 4096;  // for one call

// The bytes that are swapped together in a big-endian file.
size_t ComponentBytes(const NpyLeaf& leaf) {
  switch (leaf.kind) {
    case 'i':
    case 'u':
    case 'f':
    case 'M':
    case 'm':
      return leaf.item_bytes;
    case 'c':
      return leaf.item_bytes / 2;
    case 'U':
      return 4;
    case 'V':  // bfloat16
      return leaf.item_bytes == 2 ? 2 : 1;
    default:
      return 1;
  }
}

}  // namespace

RecordBox::RecordBox(DataCursor* cursor, const Box& box, uint64_t record_bytes) : cursor_(cursor) {
  // The last axes that are taken whole, and the one outside them, make a run.
  size_t axis = box.dims.size();
  run_bytes_ = record_bytes;
  uint64_t step = record_bytes;
  DimVector steps(box.dims.size());
  bool runs = true;
  while (axis-- > 0) {
    steps[axis] = static_cast<int64_t>(step);
    run_offset_ += step * static_cast<uint64_t>(box.starts[axis]);
    if (runs) {
      run_bytes_ *= static_cast<uint64_t>(box.lengths[axis]);
    } else {
      lengths_.insert(lengths_.begin(), box.lengths[axis]);
      steps_.insert(steps_.begin(), steps[axis]);
    }
    if (box.lengths[axis] != box.dims[axis]) runs = false;
    step *= static_cast<uint64_t>(box.dims[axis]);
  }
  index_.assign(lengths_.size(), 0);
}

// Moves to the next run; false after the last one.
bool RecordBox::NextRun() {
  run_done_ = 0;
  for (size_t axis = lengths_.size(); axis-- > 0;) {
    run_offset_ += static_cast<uint64_t>(steps_[axis]);
    if (++index_[axis] < lengths_[axis]) return true;
    run_offset_ -= static_cast<uint64_t>(steps_[axis] * lengths_[axis]);
    index_[axis] = 0;
  }
  return false;
}

absl::Status RecordBox::Read(absl::Span<char> out) {
  std::vector<ReadRange> ranges;
  while (!out.empty()) {
    if (run_done_ == run_bytes_) NextRun();
    const size_t bytes = std::min<uint64_t>(out.size(), run_bytes_ - run_done_);
    const ReadRange range{run_offset_ + run_done_, out.first(bytes)};
    run_done_ += bytes;
    out.remove_prefix(bytes);
    if (ranges.empty() && out.empty()) return cursor_->ReadAt(range.offset, range.out);
    ranges.push_back(range);
    if (ranges.size() == kMaxRanges || out.empty()) {
      CASK_RETURN_IF_ERROR(cursor_->ReadRanges(ranges));
      ranges.clear();
    }
  }
  return absl::OkStatus();
}

LeafDecoder::LeafDecoder(const NpyLeaf* leaf, bool allow_odd_bools)
    : leaf_(leaf), allow_odd_bools_(allow_odd_bools), bytes_per_record_(leaf->item_bytes) {
  dense_bytes_ = leaf->item_bytes;
  for (size_t axis = leaf->dims.size(); axis-- > 0;) {
    const int64_t count = leaf->dims[axis];
    const int64_t byte_stride = leaf->byte_strides[axis];
    bytes_per_record_ *= static_cast<size_t>(count);
    if (count == 1) continue;
    if (axes_.empty() && byte_stride == static_cast<int64_t>(dense_bytes_)) {
      dense_bytes_ *= static_cast<size_t>(count);
    } else if (!axes_.empty() && byte_stride == axes_.back().count * axes_.back().byte_stride) {
      axes_.back().count *= count;
    } else {
      axes_.push_back({count, byte_stride});
    }
  }
  std::reverse(axes_.begin(), axes_.end());
}

void LeafDecoder::TakeAxis(const char* from, size_t axis, char** to) const {
  if (axis == axes_.size()) {
    std::memcpy(*to, from, dense_bytes_);
    *to += dense_bytes_;
    return;
  }
  for (int64_t i = 0; i < axes_[axis].count; ++i) TakeAxis(from + i * axes_[axis].byte_stride, axis + 1, to);
}

void LeafDecoder::Take(const char* records, size_t num_records, size_t record_bytes, char* out) const {
  for (size_t i = 0; i < num_records; ++i) TakeAxis(records + i * record_bytes + leaf_->offset, 0, &out);
}

absl::Status ElementReader::ReadFields(absl::Span<char> out) {
  const size_t record_bytes = header_->record_bytes;
  char* to = out.data();
  size_t records = out.size() / bytes_per_record();
  while (records > 0) {
    const size_t now = std::min(records, std::max<size_t>(kBlockBytes / record_bytes, 1));
    block_.resize(now * record_bytes);
    CASK_RETURN_IF_ERROR(box_->Read(absl::MakeSpan(&block_[0], block_.size())));
    decoder_.Take(block_.data(), now, record_bytes, to);
    to += now * bytes_per_record();
    records -= now;
  }
  return absl::OkStatus();
}

absl::Status ElementReader::Read(absl::Span<char> out) {
  if (out.empty()) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(header_->is_structured ? ReadFields(out) : box_->Read(out));
  return decoder_.Finish(out);
}

absl::Status LeafDecoder::Finish(absl::Span<char> elements) {
  const size_t component_bytes = ComponentBytes(*leaf_);
  if (leaf_->big_endian && component_bytes > 1) {
    SwapBytes(elements.data(), elements.size() / component_bytes, component_bytes);
  }
  absl::Status status;
  if (leaf_->kind == 'b') {
    unsigned char any = 0;
    for (const char byte : elements) any |= static_cast<unsigned char>(byte);
    for (size_t i = 0; any > 1 && i < elements.size(); ++i) {
      const auto byte = static_cast<unsigned char>(elements[i]);
      if (byte <= 1) continue;
      elements[i] = 1;
      if (allow_odd_bools_ || !status.ok()) continue;
      status = absl::DataLossError(absl::StrCat("element ", num_read_ + i, " is a bool of byte ", byte,
                                                "; only 0 and 1 are bools (NpyReaderOptions::allow_odd_bools)"));
    }
  }
  num_read_ += elements.size() / leaf_->item_bytes;
  return status;
}

absl::Status DecodeStrings(const NpyLeaf& leaf, absl::Span<const char> fixed, uint64_t first,
                           absl::Span<std::string> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    absl::string_view item(fixed.data() + i * leaf.item_bytes, leaf.item_bytes);
    if (leaf.kind == 'S') {
      const size_t last = item.find_last_not_of('\0');
      out[i] = std::string(item.substr(0, last == absl::string_view::npos ? 0 : last + 1));
      continue;
    }
    size_t length = item.size() / 4;
    while (length > 0 && LoadLittleEndian<uint32_t>(item.data() + 4 * (length - 1)) == 0) --length;
    out[i].clear();
    for (size_t at = 0; at < length; ++at) {
      const auto code_point = LoadLittleEndian<uint32_t>(item.data() + 4 * at);
      if (AppendUtf8(code_point, &out[i])) continue;
      return absl::DataLossError(absl::StrCat("element ", first + i, " has the code point ", code_point,
                                              "; the largest is 1114111 (U+10FFFF)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::npy
