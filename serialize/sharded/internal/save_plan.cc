#include "tensorcask/serialize/sharded/internal/save_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice_set.h"

namespace tensorcask::sharded {
namespace {

constexpr uint64_t kObjectBytes = 64;  // what a variant counts for the plan

// -1, 0 or 1. A full axis begins at 0.
int CompareSlices(const TensorSlice& a, const TensorSlice& b) {
  for (int axis = 0; axis < std::min(a.rank(), b.rank()); ++axis) {
    const auto x = std::make_tuple(a.extent(axis).start, a.extent(axis).length);
    const auto y = std::make_tuple(b.extent(axis).start, b.extent(axis).length);
    if (x != y) return x < y ? -1 : 1;
  }
  return a.rank() == b.rank() ? 0 : a.rank() < b.rank() ? -1 : 1;
}

// What the elements take in a data file, as far as the balance of the ranks needs it.
uint64_t ElementBytes(const TensorView& view) {
  const auto elements = static_cast<uint64_t>(view.num_elements());
  if (IsFixedSize(view.dtype())) return elements * ElementSize(view.dtype());
  if (view.dtype() != DType::kString || !view.IsContiguous()) return elements * kObjectBytes;
  const std::string* const values = view.data<std::string>();
  return std::accumulate(values, values + elements, elements,
                         [](uint64_t sum, const std::string& value) { return sum + value.size(); });
}

// A declaration: name, dtype number, shape, slice, bytes. All numbers are varints; the length of a full axis is 0.
void AppendDeclaration(const LocalPiece& piece, const TensorSlice& slice, std::string* out) {
  AppendVarint(piece.name.size(), out);
  *out += piece.name;
  AppendVarint(static_cast<uint64_t>(DTypeNumber(piece.elements.dtype())), out);
  AppendVarint(static_cast<uint64_t>(piece.full_shape.rank()), out);
  for (int axis = 0; axis < piece.full_shape.rank(); ++axis) {
    AppendVarint(static_cast<uint64_t>(piece.full_shape.dim(axis)), out);
    const TensorSlice::Extent extent = slice.extent(axis);
    AppendVarint(extent.full() ? 0 : static_cast<uint64_t>(extent.length), out);
    if (!extent.full()) AppendVarint(static_cast<uint64_t>(extent.start), out);
  }
  AppendVarint(ElementBytes(piece.elements), out);
}

struct Declaration {
  absl::string_view name;
  DType dtype = DType::kInvalid;
  TensorShape shape;
  TensorSlice slice;
  uint64_t bytes = 0;
  int rank = 0;         // that declares it
  size_t declared = 0;  // its number there
};

// Visits the declarations of one rank.
class DeclarationCursor {
 public:
  DeclarationCursor(absl::string_view bytes, int rank) : rest_(bytes), rank_(rank) {}

  // False after the last one. Errors: Internal.
  absl::StatusOr<bool> Next() {
    if (rest_.empty()) return false;
    const absl::string_view last = now_.name;
    now_ = Declaration();
    now_.rank = rank_;
    now_.declared = count_++;
    if (!Parse() || now_.name < last) {
      return absl::InternalError(absl::StrCat("rank ", rank_, " sent declarations that cannot be read"));
    }
    return true;
  }
  const Declaration& now() const { return now_; }

 private:
  bool Parse() {
    uint64_t size = 0;
    if (!ParseVarint(&rest_, &size) || size > rest_.size()) return false;
    now_.name = rest_.substr(0, size);
    rest_.remove_prefix(size);
    uint64_t number = 0;
    uint64_t axes = 0;
    if (!ParseVarint(&rest_, &number) || !ParseVarint(&rest_, &axes) || axes > TensorShape::kMaxRank) return false;
    const std::optional<DType> dtype = DTypeFromNumber(static_cast<int64_t>(number));
    if (!dtype.has_value()) return false;
    now_.dtype = *dtype;
    std::vector<int64_t> dims(axes);
    std::vector<TensorSlice::Extent> extents(axes);
    for (size_t axis = 0; axis < axes; ++axis) {
      uint64_t dim = 0;
      uint64_t length = 0;
      uint64_t start = 0;
      if (!ParseVarint(&rest_, &dim) || !ParseVarint(&rest_, &length)) return false;
      if (length != 0 && !ParseVarint(&rest_, &start)) return false;
      dims[axis] = static_cast<int64_t>(dim);
      if (length != 0) extents[axis] = {static_cast<int64_t>(start), static_cast<int64_t>(length)};
    }
    absl::StatusOr<TensorShape> shape = TensorShape::Create(dims);
    absl::StatusOr<TensorSlice> slice = TensorSlice::Create(extents);
    if (!shape.ok() || !slice.ok()) return false;
    now_.shape = *std::move(shape);
    now_.slice = *std::move(slice);
    return ParseVarint(&rest_, &now_.bytes);
  }

  absl::string_view rest_;
  const int rank_;
  size_t count_ = 0;
  Declaration now_;
};

// A piece that several ranks have.
struct Replica {
  uint64_t bytes = 0;
  std::vector<std::pair<int, size_t>> holders;  // rank, number of the declaration
  std::vector<TensorSlice> slices;              // as SavePlan::Piece; kept where this rank is a holder
};

class Planner {
 public:
  Planner(absl::Span<const std::string> declarations, int rank) : declarations_(declarations), rank_(rank) {}

  absl::StatusOr<SavePlan> Make();

 private:
  absl::Status AddTensor(std::vector<Declaration>* same);
  void Assign(int rank, size_t declared, uint64_t bytes, std::vector<TensorSlice> slices);

  const absl::Span<const std::string> declarations_;
  const int rank_;
  std::vector<uint64_t> load_;  // bytes, by rank
  std::vector<Replica> replicas_;
  SavePlan plan_;
};

absl::StatusOr<SavePlan> Planner::Make() {
  load_.assign(declarations_.size(), 0);
  std::vector<DeclarationCursor> cursors;
  cursors.reserve(declarations_.size());
  for (size_t i = 0; i < declarations_.size(); ++i) cursors.emplace_back(declarations_[i], static_cast<int>(i));
  const auto after = [&](size_t a, size_t b) {
    const int order = cursors[a].now().name.compare(cursors[b].now().name);
    return order != 0 ? order > 0 : a > b;
  };
  std::vector<size_t> heap;
  const auto push = [&](size_t rank) -> absl::Status {
    CASK_ASSIGN_OR_RETURN(const bool found, cursors[rank].Next());
    if (!found) return absl::OkStatus();
    heap.push_back(rank);
    std::push_heap(heap.begin(), heap.end(), after);
    return absl::OkStatus();
  };
  for (size_t i = 0; i < cursors.size(); ++i) CASK_RETURN_IF_ERROR(push(i));
  std::vector<Declaration> same;
  while (!heap.empty()) {
    same.clear();
    do {
      std::pop_heap(heap.begin(), heap.end(), after);
      const size_t rank = heap.back();
      heap.pop_back();
      same.push_back(cursors[rank].now());
      CASK_RETURN_IF_ERROR(push(rank));
    } while (!heap.empty() && cursors[heap.front()].now().name == same.front().name);
    CASK_RETURN_IF_ERROR(AddTensor(&same));
  }

  // The largest first. Of equal ones that which comes first in the order of names and slices.
  std::stable_sort(replicas_.begin(), replicas_.end(),
                   [](const Replica& a, const Replica& b) { return a.bytes > b.bytes; });
  for (Replica& replica : replicas_) {
    const auto holder =
        std::min_element(replica.holders.begin(), replica.holders.end(), [&](const auto& a, const auto& b) {
          return load_[static_cast<size_t>(a.first)] < load_[static_cast<size_t>(b.first)];
        });
    Assign(holder->first, holder->second, replica.bytes, std::move(replica.slices));
  }
  std::sort(plan_.pieces.begin(), plan_.pieces.end(),
            [](const SavePlan::Piece& a, const SavePlan::Piece& b) { return a.declared < b.declared; });
  plan_.bytes = load_[static_cast<size_t>(rank_)];
  return std::move(plan_);
}

absl::Status Planner::AddTensor(std::vector<Declaration>* same) {
  const Declaration first = same->front();
  const auto label = [&] { return absl::StrCat("tensor ", Quoted(first.name)); };
  for (const Declaration& other : *same) {
    if (other.dtype == first.dtype && other.shape == first.shape) continue;
    return absl::InvalidArgumentError(absl::StrCat(label(), ": rank ", first.rank, " declares ", DTypeName(first.dtype),
                                                   " ", first.shape.ToString(), ", rank ", other.rank, " declares ",
                                                   DTypeName(other.dtype), " ", other.shape.ToString()));
  }
  std::sort(same->begin(), same->end(), [](const Declaration& a, const Declaration& b) {
    const int order = CompareSlices(a.slice, b.slice);
    return order != 0 ? order < 0 : std::tie(a.rank, a.declared) < std::tie(b.rank, b.declared);
  });
  TensorSliceSet pieces(first.dtype, first.shape);
  std::vector<size_t> begins;  // where each distinct slice begins in *same
  for (size_t i = 0; i < same->size(); ++i) {
    const Declaration& piece = (*same)[i];
    if (i > 0 && piece.slice == (*same)[i - 1].slice) continue;
    CASK_ANNOTATE_IF_ERROR(pieces.Register(piece.slice, absl::StrCat("rank ", piece.rank)), label());
    begins.push_back(i);
  }
  if (!pieces.IsComplete()) {
    int64_t found = 0;
    for (const size_t i : begins) {
      CASK_ASSIGN_OR_RETURN(const TensorShape part, (*same)[i].slice.Apply(first.shape));
      found += part.num_elements();
    }
    std::vector<int> ranks;
    for (const Declaration& piece : *same) ranks.push_back(piece.rank);
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    constexpr size_t kMostNamed = 8;
    std::string named;
    for (size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i) {
      absl::StrAppend(&named, i == 0 ? "" : ", ", ranks[i]);
    }
    if (ranks.size() > kMostNamed) absl::StrAppend(&named, " and ", ranks.size() - kMostNamed, " more");
    return absl::InvalidArgumentError(absl::StrCat(label(), ": ", found, " of ", first.shape.num_elements(),
                                                   " elements of ", first.shape.ToString(),
                                                   " are declared; ranks with pieces of it: ", named));
  }
  const bool is_sliced = begins.size() > 1;
  plan_.num_records += begins.size() + (is_sliced ? 1 : 0);
  for (size_t i = 0; i < begins.size(); ++i) {
    const size_t begin = begins[i];
    const size_t end = i + 1 < begins.size() ? begins[i + 1] : same->size();
    const Declaration& piece = (*same)[begin];
    const bool is_mine =
        std::any_of(same->begin() + static_cast<ptrdiff_t>(begin), same->begin() + static_cast<ptrdiff_t>(end),
                    [&](const Declaration& other) { return other.rank == rank_; });
    std::vector<TensorSlice> slices;
    if (i == 0 && is_sliced && is_mine) {
      for (const size_t each : begins) slices.push_back((*same)[each].slice);
    }
    if (end - begin == 1) {
      Assign(piece.rank, piece.declared, piece.bytes, std::move(slices));
      continue;
    }
    Replica replica;
    replica.bytes = piece.bytes;
    replica.slices = std::move(slices);
    for (size_t each = begin; each < end; ++each) {
      const bool is_second = each > begin && (*same)[each].rank == (*same)[each - 1].rank;  // for one rank
      if (!is_second) replica.holders.emplace_back((*same)[each].rank, (*same)[each].declared);
    }
    replicas_.push_back(std::move(replica));
  }
  return absl::OkStatus();
}

void Planner::Assign(int rank, size_t declared, uint64_t bytes, std::vector<TensorSlice> slices) {
  load_[static_cast<size_t>(rank)] += bytes;
  if (rank == rank_) plan_.pieces.push_back({declared, std::move(slices)});
}

}  // namespace

TensorSlice Canonical(const TensorSlice& slice, const TensorShape& shape) {
  std::vector<TensorSlice::Extent> extents(static_cast<size_t>(slice.rank()));
  for (int axis = 0; axis < slice.rank(); ++axis) {
    const TensorSlice::Extent extent = slice.extent(axis);
    if (!extent.full() && extent.length != shape.dim(axis)) extents[static_cast<size_t>(axis)] = extent;
  }
  return *TensorSlice::Create(extents);
}

std::string EncodeDeclarations(absl::Span<const LocalPiece> pieces, std::vector<size_t>* order) {
  std::vector<TensorSlice> slices;
  slices.reserve(pieces.size());
  for (const LocalPiece& piece : pieces) slices.push_back(Canonical(piece.slice, piece.full_shape));
  order->resize(pieces.size());
  std::iota(order->begin(), order->end(), size_t{0});
  std::sort(order->begin(), order->end(), [&](size_t a, size_t b) {
    const int names = pieces[a].name.compare(pieces[b].name);
    if (names != 0) return names < 0;
    const int by_slice = CompareSlices(slices[a], slices[b]);
    return by_slice != 0 ? by_slice < 0 : a < b;
  });
  std::string out;
  for (const size_t i : *order) AppendDeclaration(pieces[i], slices[i], &out);
  return out;
}

absl::StatusOr<SavePlan> MakeSavePlan(absl::Span<const std::string> declarations, int rank) {
  return Planner(declarations, rank).Make();
}

}  // namespace tensorcask::sharded
