#include "tensorcask/serialize/report/internal/tensor_profile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/serialize/report/internal/zero_lines.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::report {
namespace {

constexpr int64_t kMostColumns = int64_t{1} << 20;

// The largest finite number of a float of at most 16 bits; 0 for other dtypes.
double LargestFinite(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 65504;
    case DType::kBfloat16:
      return std::ldexp(255.0 / 128, 127);
    case DType::kFloat8E4m3fn:
      return 448;
    case DType::kFloat8E5m2:
      return 57344;
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E4m3:
      return 240;
    case DType::kFloat8E5m2fnuz:
      return 57344;
    case DType::kFloat8E4m3b11fnuz:
      return 30;
    case DType::kFloat8E3m4:
      return 15.5;
    default:
      return 0;
  }
}

// Whether a number of only a sign bit is zero. In the other small floats it is NaN, or there is no sign.
bool HasNegativeZero(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E5m2fnuz:
    case DType::kFloat8E4m3b11fnuz:
    case DType::kFloat4E2m1:
    case DType::kFloat6E2m3:
    case DType::kFloat6E3m2:
      return false;
    default:
      return IsFloating(dtype);
  }
}

std::vector<int64_t> DimsOf(const TensorShape& shape) {
  const auto dims = shape.dims();
  return {dims.begin(), dims.end()};
}

// Mixes a number into both halves of a hash.
void Mix(uint64_t low, uint64_t high, std::array<uint64_t, 2>* hash) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15U;
  (*hash)[0] = ((*hash)[0] ^ low) * kOdd;
  (*hash)[0] ^= (*hash)[0] >> 29;
  (*hash)[1] = ((*hash)[1] ^ high) * (kOdd ^ 0xFF51AFD7ED558CCCU);
  (*hash)[1] ^= (*hash)[1] >> 31;
}

}  // namespace

ProfileDetail ProfileDetail::For(size_t num_tensors) {
  constexpr int64_t kSamples = int64_t{1} << 21;  // for all tensors together
  const auto tensors = static_cast<int64_t>(std::max<size_t>(num_tensors, 1));
  ProfileDetail detail;
  detail.sample = std::clamp<int64_t>(kSamples / tensors, tensors > 20000 ? 128 : 1024, 65536);
  if (num_tensors <= 300) return detail;
  detail.bins = num_tensors <= 1000 ? 48 : num_tensors <= 5000 ? 32 : num_tensors <= 12000 ? 16 : 0;
  detail.picture = num_tensors <= 1000 ? 1024 : num_tensors <= 5000 ? 256 : 0;
  detail.few = num_tensors <= 12000 ? 64 : 16;
  detail.groups = num_tensors <= 1000 ? 24 : num_tensors <= 5000 ? 8 : 0;
  return detail;
}

std::vector<int64_t> LatticeCounts(absl::Span<const int64_t> dims, int64_t most) {
  const auto fits = [&](int64_t cap) {
    int64_t product = 1;
    for (const int64_t dim : dims) {
      const int64_t count = std::min(dim, cap);
      if (count == 0) return true;
      if (product > most / count) return false;
      product *= count;
    }
    return true;
  };
  int64_t low = 1;  // fits: the product of ones is 1
  int64_t high = most;
  for (const int64_t dim : dims) {
    if (dim == 0) return std::vector<int64_t>(dims.begin(), dims.end());
  }
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  std::vector<int64_t> counts;
  for (const int64_t dim : dims) counts.push_back(std::min(dim, low));
  return counts;
}

int64_t LatticeIndex(int64_t k, int64_t count, int64_t dim) {
  return k * (dim / count) + k * (dim % count) / count;  // k * dim may overflow
}

double TensorProfile::norm() const {
  const double n = static_cast<double>(totals.finite());
  const double mean = totals.mean();
  const double spread = totals.standard_deviation();
  return std::sqrt(n * (mean * mean + spread * spread));
}

TensorProfiler::TensorProfiler(DType dtype, const TensorShape& shape, const ProfileDetail& detail)
    : dtype_(dtype), dims_(DimsOf(shape)) {
  profile_.is_numeric = archive::HasOrder(dtype);
  if (!profile_.is_numeric) return;
  profile_.counts = LatticeCounts(dims_, detail.sample);
  place_.assign(dims_.size(), 0);
  strides_.assign(dims_.size(), 1);
  for (size_t axis = dims_.size(); axis-- > 1;) strides_[axis - 1] = strides_[axis] * std::max<int64_t>(dims_[axis], 1);
  sample_is_complete_ = shape.num_elements() == 0;
  largest_ = LargestFinite(dtype);
  if (dims_.size() >= 2 && shape.num_elements() > 0 && dtype != DType::kFloat8E8m0fnu) {  // which has no zero
    profile_.dead_rows = 0;
    row_elements_ = strides_[0];
    if (dims_.size() == 2 && dims_[1] <= kMostColumns && ElementSize(dtype) <= 8) {
      column_bits_.assign(static_cast<size_t>(dims_[1]) * ElementSize(dtype), 0);
    }
  }
}

absl::Status TensorProfiler::Add(const TensorView& block) {
  if (block.num_elements() == 0) return absl::OkStatus();
  if (const absl::StatusOr<ContentHash> hash = HashElementsInProcess(block); hash.ok()) {
    uint64_t halves[2];
    std::memcpy(halves, hash->bytes.data(), sizeof(halves));
    Mix(halves[0], halves[1], &profile_.hash);
  } else {
    return hash.status();
  }
  if (!profile_.is_numeric) return absl::OkStatus();
  const uint64_t zeros = profile_.totals.zeros;
  CASK_RETURN_IF_ERROR(profile_.totals.Add(block));
  if (largest_ > 0 && (profile_.totals.max >= largest_ || profile_.totals.min <= -largest_)) CountSaturated(block);
  if (row_elements_ > 0) {
    if (profile_.totals.zeros == zeros) {
      PassLinesWithoutZeros(block.num_elements());
    } else {
      CountZeroLines(block);
    }
  }
  CASK_RETURN_IF_ERROR(AddSample(block));
  offset_ += block.num_elements();
  return absl::OkStatus();
}

void TensorProfiler::AdvanceLattice() {
  for (size_t axis = dims_.size(); axis-- > 0;) {
    const int64_t before = LatticeIndex(place_[axis], profile_.counts[axis], dims_[axis]);
    if (++place_[axis] < profile_.counts[axis]) {
      next_ += (LatticeIndex(place_[axis], profile_.counts[axis], dims_[axis]) - before) * strides_[axis];
      return;
    }
    next_ -= before * strides_[axis];
    place_[axis] = 0;
  }
  sample_is_complete_ = true;
}

absl::Status TensorProfiler::AddSample(const TensorView& block) {
  const int64_t end = offset_ + block.num_elements();
  const size_t size = ElementSize(dtype_);
  const char* const data = block.bytes().data();
  std::vector<char> chosen;
  if (next_ < end) chosen.reserve(static_cast<size_t>(std::min<int64_t>(block.num_elements(), 65536)) * size);
  while (!sample_is_complete_ && next_ < end) {
    const char* const element = data + static_cast<size_t>(next_ - offset_) * size;
    chosen.insert(chosen.end(), element, element + size);
    AdvanceLattice();
  }
  if (chosen.empty()) return absl::OkStatus();
  const auto count = static_cast<int64_t>(chosen.size() / size);
  CASK_ASSIGN_OR_RETURN(Tensor some, Tensor::Create(dtype_, TensorShape({count})));
  std::memcpy(some.mutable_bytes().data(), chosen.data(), chosen.size());
  CASK_ASSIGN_OR_RETURN(const TensorView values, ConvertTo(some, DType::kFloat64, MemoryFormat::kContiguous));
  profile_.sample.insert(profile_.sample.end(), values.data<double>(), values.data<double>() + count);
  return absl::OkStatus();
}

void TensorProfiler::CountSaturated(const TensorView& block) {
  const char* const data = block.bytes().data();
  const auto size = static_cast<size_t>(block.num_elements());
  if (dtype_ == DType::kFloat16 || dtype_ == DType::kBfloat16) {
    profile_.saturated += CountMagnitude16(data, size, dtype_ == DType::kFloat16 ? 0x7bff : 0x7f7f);
    return;
  }
  const absl::StatusOr<TensorView> wide = ConvertTo(block, DType::kFloat32, MemoryFormat::kContiguous);
  if (!wide.ok()) return;
  for (size_t i = 0; i < size; ++i) {
    profile_.saturated += std::abs(static_cast<double>(wide->data<float>()[i])) == largest_ ? 1 : 0;
  }
}

// Most blocks have no zero, so that neither a row nor a column of them is dead.
void TensorProfiler::PassLinesWithoutZeros(int64_t count) {
  const int64_t in_row = offset_ % row_elements_;
  const bool ends_row = count >= row_elements_ - in_row;
  row_is_dead_ = ends_row && (in_row + count) % row_elements_ == 0;  // a new row, of which nothing is known
  const auto mark = [this](int64_t from, int64_t to) {
    const auto size = static_cast<int64_t>(ElementSize(dtype_));
    std::fill(column_bits_.begin() + from * size, column_bits_.begin() + to * size, uint8_t{1});
  };
  if (column_bits_.empty()) return;
  if (count >= row_elements_) {
    column_bits_.clear();  // no column is dead
    profile_.dead_columns = 0;
  } else {
    mark(in_row, std::min(in_row + count, row_elements_));
    if (ends_row) mark(0, in_row + count - row_elements_);
  }
}

void TensorProfiler::CountZeroLines(const TensorView& block) {
  const size_t size = ElementSize(dtype_);
  const char* data = block.bytes().data();
  int64_t left = block.num_elements();
  int64_t in_row = offset_ % row_elements_;
  while (left > 0) {
    const int64_t some = std::min(left, row_elements_ - in_row);
    uint8_t* const columns = column_bits_.empty() ? nullptr : column_bits_.data() + static_cast<size_t>(in_row) * size;
    if (!AllZero(data, static_cast<size_t>(some), size, HasNegativeZero(dtype_), columns)) row_is_dead_ = false;
    data += static_cast<size_t>(some) * size;
    left -= some;
    in_row += some;
    if (in_row == row_elements_) {
      profile_.dead_rows += row_is_dead_ ? 1 : 0;
      row_is_dead_ = true;
      in_row = 0;
    }
  }
}

TensorProfile TensorProfiler::Finish() {
  if (!column_bits_.empty()) {
    const size_t size = ElementSize(dtype_);
    profile_.dead_columns = 0;
    for (size_t i = 0; i < column_bits_.size(); i += size) {
      const auto end = column_bits_.begin() + static_cast<int64_t>(i + size);
      const bool is_zero = std::all_of(end - static_cast<int64_t>(size), end, [](uint8_t bits) { return bits == 0; });
      profile_.dead_columns += is_zero ? 1 : 0;
    }
  }
  return std::move(profile_);
}

AxisProfile ProfileAxis(const TensorProfile& profile, size_t axis, int64_t groups) {
  const int64_t count = profile.counts[axis];
  const int64_t used = std::min(groups, count);
  std::vector<double> sums(static_cast<size_t>(used), 0);
  std::vector<double> squares = sums;
  std::vector<double> sizes = sums;
  size_t inner = 1;  // elements of one index in a row
  for (size_t i = axis + 1; i < profile.counts.size(); ++i) inner *= static_cast<size_t>(profile.counts[i]);
  const size_t all = inner * static_cast<size_t>(count);
  for (size_t start = 0; start + all <= profile.sample.size() && all > 0;) {
    for (int64_t index = 0; index < count; ++index, start += inner) {
      const auto group = static_cast<size_t>(index * used / count);
      for (size_t i = start; i < start + inner; ++i) {
        const double value = profile.sample[i];
        if (!std::isfinite(value)) continue;
        sums[group] += value;
        squares[group] += value * value;
        sizes[group] += 1;
      }
    }
  }
  AxisProfile result;
  for (size_t i = 0; i < sums.size(); ++i) {
    const double mean = sizes[i] > 0 ? sums[i] / sizes[i] : NAN;
    result.means.push_back(mean);
    result.spreads.push_back(sizes[i] > 0 ? std::sqrt(std::max(0.0, squares[i] / sizes[i] - mean * mean)) : NAN);
  }
  return result;
}

namespace {

// `ranks` ascend; those of [first, last) of `values` are moved to their places.
void SelectRanks(absl::Span<const size_t> ranks, size_t first, size_t last, double* values) {
  if (ranks.empty() || last - first < 2) return;
  const size_t middle = ranks.size() / 2;
  const auto at = [&](size_t index) { return values + index; };
  std::nth_element(at(first), at(ranks[middle]), at(last));
  SelectRanks(ranks.subspan(0, middle), first, ranks[middle], values);
  SelectRanks(ranks.subspan(middle + 1), ranks[middle] + 1, last, values);
}

}  // namespace

void SelectForQuantiles(absl::Span<const double> qs, absl::Span<double> values) {
  if (values.empty()) return;
  std::vector<size_t> ranks;
  for (const double q : qs) {
    const auto below = static_cast<size_t>(q * static_cast<double>(values.size() - 1));
    for (const size_t rank : {below, std::min(below + 1, values.size() - 1)}) {
      if (ranks.empty() || rank > ranks.back()) ranks.push_back(rank);
    }
  }
  SelectRanks(ranks, 0, values.size(), values.data());
}

double Quantile(absl::Span<const double> sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

std::vector<uint64_t> Histogram(absl::Span<const double> values, double low, double high, int bins) {
  std::vector<uint64_t> counts(static_cast<size_t>(bins), 0);
  const double width = high - low;
  for (const double value : values) {
    if (!std::isfinite(value) || value < low || value > high) continue;
    // If the range overflows double, or is empty, the first bin has all values.
    const double place = width > 0 && std::isfinite(width) ? (value - low) / width : 0;
    ++counts[static_cast<size_t>(std::clamp(static_cast<int>(place * bins), 0, bins - 1))];
  }
  return counts;
}

}  // namespace tensorcask::report
