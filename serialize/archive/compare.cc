#include "tensorcask/serialize/archive/compare.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/internal/byte_progress.h"
#include "tensorcask/serialize/archive/internal/chosen_names.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/summary.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The index in the tensor of element `place`, in row-major order, of a block.
std::vector<int64_t> IndexIn(const TensorSlice& slice, const TensorView& block, int64_t place) {
  std::vector<int64_t> index(block.rank());
  for (int axis = block.rank() - 1; axis >= 0; --axis) {
    index[axis] = place % block.dim(axis) + (slice.IsFullAt(axis) ? 0 : slice.extent(axis).start);
    place /= block.dim(axis);
  }
  return index;
}

// In what two numbers of different dtypes are compared.
DType CommonDType(DType a, DType b) {
  const auto is_unsigned = [](DType dtype) { return IsInteger(dtype) && DTypeName(dtype)[0] == 'u'; };
  if (IsComplex(a) || IsComplex(b)) return DType::kComplex128;
  if (!IsInteger(a) || !IsInteger(b)) return DType::kFloat64;
  if (is_unsigned(a) && is_unsigned(b)) return DType::kUint64;
  return a == DType::kUint64 || b == DType::kUint64 ? DType::kFloat64 : DType::kInt64;
}

// Whether values of both dtypes are numbers that CommonDType can hold.
bool AreNumbers(DType a, DType b) { return ElementSize(a) > 0 && ElementSize(b) > 0; }

// Compares the elements of two blocks whose bytes differ.
class ElementComparer {
 public:
  ElementComparer(const CompareOptions& options, TensorDifference* out) : options_(options), out_(out) {}

  absl::Status Compare(const TensorBlock& a, const TensorBlock& b) {
    largest_ = -1;
    largest_relative_ = -1;
    CASK_RETURN_IF_ERROR(CompareElements(a.elements, b.elements));
    if (largest_relative_ >= 0) out_->where_relative = IndexIn(a.slice, a.elements, largest_relative_);
    if (largest_ < 0) return absl::OkStatus();
    out_->where = IndexIn(a.slice, a.elements, largest_);
    if (a.elements.dtype() == DType::kString) return absl::OkStatus();
    out_->text_a = Text(a.elements, largest_);
    out_->text_b = Text(b.elements, largest_);
    return absl::OkStatus();
  }

 private:
  // Of element `place` of a row-major view.
  static std::string Text(const TensorView& view, int64_t place) {
    return internal::SummarizeElements({view.dtype(), view.buffer()->data(), {}, {}, view.offset() + place}, {});
  }

  absl::Status CompareElements(const TensorView& a, const TensorView& b) {
    if (a.dtype() != b.dtype()) {
      const DType common = CommonDType(a.dtype(), b.dtype());
      CASK_ASSIGN_OR_RETURN(const TensorView common_a, ConvertTo(a, common));
      CASK_ASSIGN_OR_RETURN(const TensorView common_b, ConvertTo(b, common));
      return CompareElements(common_a, common_b);
    }
    switch (a.dtype()) {
      case DType::kFloat32:
        return CompareAs<float>(a, b);
      case DType::kFloat64:
        return CompareAs<double>(a, b);
      case DType::kInt64:
        return CompareAs<int64_t>(a, b);
      case DType::kUint64:
        return CompareAs<uint64_t>(a, b);
      case DType::kComplex64:
        return CompareAs<std::complex<float>>(a, b);
      case DType::kComplex128:
        return CompareAs<std::complex<double>>(a, b);
      case DType::kString:
        CompareStrings(a, b);
        return absl::OkStatus();
      default:
        break;
    }
    if (a.element_size() == 0) return absl::UnimplementedError("elements of this dtype cannot be compared");
    // Every other number is a double exactly.
    CASK_ASSIGN_OR_RETURN(const TensorView wide_a, ConvertTo(a, DType::kFloat64));
    CASK_ASSIGN_OR_RETURN(const TensorView wide_b, ConvertTo(b, DType::kFloat64));
    return CompareAs<double>(wide_a, wide_b);
  }

  template <typename T>
  static double Distance(T a, T b) {
    if constexpr (std::is_integral_v<T>) {  // exact also where a double is not
      return static_cast<double>(a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
                                       : static_cast<uint64_t>(b) - static_cast<uint64_t>(a));
    } else if constexpr (std::is_floating_point_v<T>) {
      return std::abs(static_cast<double>(a) - static_cast<double>(b));
    } else {
      return std::abs(std::complex<double>(a) - std::complex<double>(b));
    }
  }
  template <typename T>
  static double Magnitude(T x) {
    if constexpr (std::is_arithmetic_v<T>) {
      return std::abs(static_cast<double>(x));
    } else {
      return std::abs(std::complex<double>(x));
    }
  }

  template <typename T>
  absl::Status CompareAs(const TensorView& a, const TensorView& b) {
    const T* const as = a.data<T>();
    const T* const bs = b.data<T>();
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      if (as[i] == bs[i]) continue;
      const bool is_nan_a = as[i] != as[i];
      const bool is_nan_b = bs[i] != bs[i];
      if (is_nan_a && is_nan_b) continue;
      const double size = Magnitude(bs[i]);
      double distance = Distance(as[i], bs[i]);
      if (is_nan_a || is_nan_b || !std::isfinite(distance)) {
        distance = kInfinity;
      } else if (distance <= options_.absolute_tolerance + options_.relative_tolerance * size) {
        continue;
      }
      Note(i, distance, size > 0 && std::isfinite(size) ? distance / size : kInfinity);
    }
    return absl::OkStatus();
  }

  void CompareStrings(const TensorView& a, const TensorView& b) {
    const std::string* const as = a.data<std::string>();
    const std::string* const bs = b.data<std::string>();
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      if (as[i] != bs[i]) Note(i, kInfinity, kInfinity);
    }
  }

  void Note(int64_t place, double absolute, double relative) {
    const bool is_first = out_->num_different++ == 0;
    if (is_first || absolute > out_->max_absolute) {
      out_->max_absolute = absolute;
      largest_ = place;
    }
    if (is_first || relative > out_->max_relative) {
      out_->max_relative = relative;
      largest_relative_ = place;
    }
  }

  const CompareOptions& options_;
  TensorDifference* const out_;
  // The elements of the current block that have the largest difference of all so far, by number in the block; -1: none.
  int64_t largest_ = -1;
  int64_t largest_relative_ = -1;
};

struct Pair {
  const ArchiveEntry* a = nullptr;  // null: only in b
  const ArchiveEntry* b = nullptr;
  absl::string_view name;
  bool equal = false;                            // their bytes
  std::unique_ptr<TensorDifference> difference;  // null for most
};

// A tensor by the name that it has in b.
struct Named {
  absl::string_view name;
  const ArchiveEntry* entry;
};

// The tensors that `include` chooses, sorted by name; of a file without names its only one. `rename` may be null;
// *new_names keeps what it returns.
absl::StatusOr<std::vector<Named>> Choose(const ArchiveReader& archive, const std::vector<std::string>& include,
                                          const std::function<absl::StatusOr<std::string>(absl::string_view)>& rename,
                                          std::deque<std::string>* new_names) {
  std::vector<Named> chosen;
  chosen.reserve(archive.entries().size());
  for (const ArchiveEntry& entry : archive.entries()) {
    if (rename) {
      CASK_ASSIGN_OR_RETURN(std::string new_name, rename(entry.name));
      new_names->push_back(std::move(new_name));
    }
    const Named named = {rename ? new_names->back() : entry.name, &entry};
    const auto matches = [&](const std::string& glob) { return MatchesGlob(glob, named.name); };
    if (!archive.has_names() || include.empty() || std::any_of(include.begin(), include.end(), matches)) {
      chosen.push_back(named);
    }
  }
  if (!rename) return chosen;
  std::sort(chosen.begin(), chosen.end(), [](const Named& x, const Named& y) { return x.name < y.name; });
  const auto twice =
      std::adjacent_find(chosen.begin(), chosen.end(), [](const Named& x, const Named& y) { return x.name == y.name; });
  if (twice == chosen.end()) return chosen;
  return absl::AlreadyExistsError(absl::StrCat(archive.path(), ": tensors ", Quoted(twice->entry->name), " and ",
                                               Quoted((twice + 1)->entry->name), " would both be called ",
                                               Quoted(twice->name)));
}

absl::StatusOr<std::vector<Pair>> PairUp(const ArchiveReader& a, const ArchiveReader& b, const CompareOptions& options,
                                         std::deque<std::string>* new_names) {
  std::vector<std::string> include = archive::NamesFirst(options.include, b.entries());
  if (!options.rename) include = archive::NamesFirst(std::move(include), a.entries());
  CASK_ASSIGN_OR_RETURN(const std::vector<Named> chosen_a, Choose(a, include, options.rename, new_names));
  CASK_ASSIGN_OR_RETURN(const std::vector<Named> chosen_b, Choose(b, include, nullptr, new_names));
  std::vector<Pair> pairs;
  pairs.reserve(std::max(chosen_a.size(), chosen_b.size()));
  const auto add = [&](const ArchiveEntry* of_a, const ArchiveEntry* of_b, absl::string_view name) {
    pairs.emplace_back();
    pairs.back().a = of_a;
    pairs.back().b = of_b;
    pairs.back().name = name;
  };
  if ((!a.has_names() || !b.has_names()) && chosen_a.size() == 1 && chosen_b.size() == 1) {
    const bool named_by_b = !a.has_names() && b.has_names();
    add(chosen_a[0].entry, chosen_b[0].entry, named_by_b ? chosen_b[0].name : chosen_a[0].name);
    return pairs;
  }
  auto next_a = chosen_a.begin();
  auto next_b = chosen_b.begin();
  while (next_a != chosen_a.end() || next_b != chosen_b.end()) {
    const bool takes_a = next_b == chosen_b.end() || (next_a != chosen_a.end() && next_a->name <= next_b->name);
    const bool takes_b = next_a == chosen_a.end() || (next_b != chosen_b.end() && next_b->name <= next_a->name);
    add(takes_a ? next_a->entry : nullptr, takes_b ? next_b->entry : nullptr, takes_a ? next_a->name : next_b->name);
    if (takes_a) ++next_a;
    if (takes_b) ++next_b;
  }
  return pairs;
}

absl::Status CompareValues(const ArchiveReader& a, const ArchiveReader& b, const CompareOptions& options,
                           archive::ByteProgress* progress, Pair* pair, TensorDifference* out) {
  // Blocks of as many elements, whatever the size of each.
  const size_t size_a = ElementSize(pair->a->dtype);
  const size_t size_b = ElementSize(pair->b->dtype);
  const bool is_cast = pair->a->dtype != pair->b->dtype;
  const uint64_t elements_each = is_cast ? std::max<uint64_t>(options.block_bytes / std::max(size_a, size_b), 1) : 0;
  const uint64_t bytes_a = is_cast ? elements_each * size_a : options.block_bytes;
  const uint64_t bytes_b = is_cast ? elements_each * size_b : options.block_bytes;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks_a, a.ReadBlocks(*pair->a, bytes_a));
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks_b, b.ReadBlocks(*pair->b, bytes_b));
  ElementComparer comparer(options, out);
  pair->equal = true;
  while (true) {
    CASK_ASSIGN_OR_RETURN(const std::optional<TensorBlock> block_a, blocks_a->Next());
    bool same = false;
    CASK_ASSIGN_OR_RETURN(const std::optional<TensorBlock> block_b,
                          block_a.has_value() ? blocks_b->NextBeside(*block_a, *blocks_a, &same) : blocks_b->Next());
    if (!block_a.has_value() || !block_b.has_value()) return absl::OkStatus();
    if (is_cast) {
      same = false;  // bytes of two dtypes mean different numbers
      pair->equal = false;
    }
    const TensorView& elements = block_a->elements;
    if (!same) {
      const uint64_t before = out->num_different;
      CASK_RETURN_IF_ERROR(comparer.Compare(*block_a, *block_b));
      if (elements.element_size() > 0 || out->num_different > before) pair->equal = false;
    }
    const uint64_t bytes =
        static_cast<uint64_t>(elements.num_elements()) * (elements.element_size() + block_b->elements.element_size());
    if (!progress->Add(bytes)) return absl::CancelledError("the comparison was cancelled");
  }
}

void ComparePair(const ArchiveReader& a, const ArchiveReader& b, const CompareOptions& options,
                 archive::ByteProgress* progress, Pair* pair) {
  using Kind = TensorDifference::Kind;
  TensorDifference difference;
  if (pair->a != nullptr) difference.a = *pair->a;
  if (pair->b != nullptr) difference.b = *pair->b;
  difference.name = std::string(pair->name);
  const bool by_value = options.cast || options.relative_tolerance > 0 || options.absolute_tolerance > 0;
  if (pair->a == nullptr || pair->b == nullptr) {
    difference.kind = pair->a == nullptr ? Kind::kOnlyInB : Kind::kOnlyInA;
  } else if (!pair->a->read_status.ok() || !pair->b->read_status.ok()) {  // their dtypes may be unknown
    difference.kind = Kind::kUnreadable;
    difference.status = !pair->a->read_status.ok() ? a.CheckReadable(*pair->a) : b.CheckReadable(*pair->b);
  } else if (pair->a->dtype != pair->b->dtype && !(by_value && AreNumbers(pair->a->dtype, pair->b->dtype))) {
    difference.kind = Kind::kDType;
  } else if (pair->a->shape != pair->b->shape) {
    difference.kind = Kind::kShape;
  } else {
    difference.status = CompareValues(a, b, options, progress, pair, &difference);
    difference.kind = difference.status.ok() ? Kind::kValues : Kind::kUnreadable;
    if (difference.status.ok() && difference.num_different == 0) return;
  }
  pair->difference = std::make_unique<TensorDifference>(std::move(difference));
}

}  // namespace

absl::StatusOr<CompareReport> Compare(const ArchiveReader& a, const ArchiveReader& b, const CompareOptions& options) {
  std::deque<std::string> new_names;
  CASK_ASSIGN_OR_RETURN(std::vector<Pair> pairs, PairUp(a, b, options, &new_names));
  archive::ByteProgress progress(options.progress);
  CASK_RETURN_IF_ERROR(ParallelFor(options.num_threads, pairs.size(), [&](size_t i) {
    if (!progress.cancelled()) ComparePair(a, b, options, &progress, &pairs[i]);
  }));
  if (progress.cancelled()) return absl::CancelledError("the comparison was cancelled");
  CompareReport report;
  for (Pair& pair : pairs) {
    if (pair.difference != nullptr) {
      report.differences.push_back(std::move(*pair.difference));
      pair.difference = nullptr;
    } else {
      const bool is_cast = pair.a->dtype != pair.b->dtype;
      ++(pair.equal && !is_cast ? report.equal : report.within_tolerance);
      if (is_cast) ++report.other_dtypes;
    }
  }
  std::stable_sort(report.differences.begin(), report.differences.end(),
                   [](const TensorDifference& x, const TensorDifference& y) {
                     const auto key = [](const TensorDifference& one) {
                       const bool has_values = one.kind == TensorDifference::Kind::kValues;
                       return std::make_tuple(has_values, -one.max_relative, -one.max_absolute);
                     };
                     return key(x) < key(y);
                   });
  return report;
}

}  // namespace tensorcask
