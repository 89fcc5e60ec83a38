#include "tensorcask/serialize/npy/internal/array_data.h"

#include <vector>

namespace tensorcask::npy {

absl::Status StoredCursor::ReadRanges(absl::Span<const ReadRange> ranges) {
  std::vector<ReadRange> in_file(ranges.begin(), ranges.end());
  for (ReadRange& range : in_file) range.offset += data_offset_;
  return file_->ReadRanges(in_file);
}

}  // namespace tensorcask::npy
