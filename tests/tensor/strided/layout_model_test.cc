// Layouts against a model that knows no strides (layout_model.h), on which each operation is done index by index: a
// million random operations, chained, over all kinds of geometry.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/strided/layout_model.h"

namespace tensorcask {
namespace {

using testing::Model;
using testing::Numbers;

class Chain {
 public:
  explicit Chain(uint32_t seed) : random_(seed) { Restart(); }

  // One operation on both sides. Returns what was done, for the trace.
  std::string Step() {
    if (model_.places.size() > 64 || layout_.rank() > 6 || Below(24) == 0) Restart();
    if (model_.places.empty() && Below(4) == 0) Restart();
    const int kind = static_cast<int>(Below(16));
    const auto rank = static_cast<int64_t>(model_.dims.size());
    switch (kind) {
      case 0:
      case 1:
        return Slice();
      case 2:
        return rank == 0 ? "none" : Narrow();
      case 3:
        return rank == 0 ? "none" : Select();
      case 4:
      case 5:
        return Permute();
      case 6:
      case 7:
      case 8:
        return Reshape();
      case 9:
        return Expand();
      case 10:
        return SqueezeAll();
      case 11:
        return Unsqueeze();
      case 12:
        return rank < 2 ? "none" : Diagonal();
      case 13:
        return rank == 0 ? "none" : Unfold();
      case 14:
        return Flip();
      default:
        return rank == 0 ? "none" : Split();
    }
  }

  const Layout& layout() const { return layout_; }
  const Model& model() const { return model_; }
  int64_t refused() const { return refused_; }

 private:
  int64_t Below(int64_t end) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(end)); }
  int64_t Between(int64_t first, int64_t last) { return first + Below(last - first + 1); }

  void Restart() {
    Numbers dims(static_cast<size_t>(Below(5)));
    Numbers strides;
    int64_t low = 0;
    for (int64_t& dim : dims) {
      dim = Below(20) == 0 ? 0 : Between(1, 4);
      strides.push_back(Between(-6, 12));
      if (dim > 0) low += std::min(int64_t{0}, strides.back() * (dim - 1));
    }
    if (Below(2) == 0) {  // dense
      layout_ = Layout::RowMajor(*TensorShape::Create(dims));
    } else {
      const absl::StatusOr<Layout> layout = Layout::Create(dims, strides, Between(0, 3) - low);
      ASSERT_OK(layout);
      layout_ = *layout;
    }
    model_ = Model::Of(layout_);
  }

  void Take(const absl::StatusOr<Layout>& layout, Model model) {
    ASSERT_OK(layout);
    layout_ = *layout;
    model_ = std::move(model);
  }

  size_t AnyAxis() { return static_cast<size_t>(Below(static_cast<int64_t>(model_.dims.size()))); }
  // The axis itself, or its name from the back.
  int64_t Named(size_t axis) {
    const auto number = static_cast<int64_t>(axis);
    return Below(2) == 0 ? number : number - static_cast<int64_t>(model_.dims.size());
  }

  std::string Slice() {
    if (model_.dims.empty()) return "none";
    const size_t axis = AnyAxis();
    const int64_t size = model_.dims[axis];
    std::optional<int64_t> start, end;
    if (Below(3) != 0) start = Between(-size - 2, size + 2);
    if (Below(3) != 0) end = Between(-size - 2, size + 2);
    int64_t step = Between(-3, 3);
    if (step == 0) step = 1;
    // Python's rule, element by element.
    Numbers chosen;
    const auto wrap = [&](int64_t i) { return i < 0 ? i + size : i; };
    for (int64_t i = start ? wrap(*start) : (step > 0 ? 0 : size - 1);; i += step) {
      if (step > 0 && end && i >= wrap(*end)) break;
      if (step < 0 && end && i <= wrap(*end)) break;
      if (step > 0 && i < 0 && start) {  // clamped to the first
        i = -step;
        continue;
      }
      if (step < 0 && i >= size && start) {  // clamped to the last
        i = size - 1 - step;
        continue;
      }
      if (i < 0 || i >= size) break;
      chosen.push_back(i);
    }
    Numbers dims = model_.dims;
    dims[axis] = static_cast<int64_t>(chosen.size());
    Take(layout_.Slice(Named(axis), start, end, step),
         model_.Rearranged(dims, [&](const Numbers& index, Numbers* from) {
           *from = index;
           (*from)[axis] = chosen[static_cast<size_t>(index[axis])];
         }));
    return "Slice";
  }

  std::string Narrow() {
    const size_t axis = AnyAxis();
    const int64_t size = model_.dims[axis];
    const int64_t start = Between(0, size);
    const int64_t length = Between(0, size - start);
    Numbers dims = model_.dims;
    dims[axis] = length;
    Take(layout_.Narrow(Named(axis), start, length), model_.Rearranged(dims, [&](const Numbers& index, Numbers* from) {
      *from = index;
      (*from)[axis] += start;
    }));
    return "Narrow";
  }

  std::string Select() {
    const size_t axis = AnyAxis();
    const int64_t size = model_.dims[axis];
    if (size == 0) return "none";
    const int64_t chosen = Below(size);
    Numbers dims = model_.dims;
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
    Take(layout_.Select(Named(axis), Below(2) == 0 ? chosen : chosen - size),
         model_.Rearranged(dims, [&](const Numbers& index, Numbers* from) {
           *from = index;
           from->insert(from->begin() + static_cast<std::ptrdiff_t>(axis), chosen);
         }));
    return "Select";
  }

  std::string Permute() {
    Numbers axes(model_.dims.size());
    std::iota(axes.begin(), axes.end(), 0);
    absl::StatusOr<Layout> result;
    std::string name;
    if (axes.size() >= 2 && Below(3) == 0) {
      name = "Transpose";
      const size_t a = AnyAxis(), b = AnyAxis();
      std::swap(axes[a], axes[b]);
      result = layout_.Transpose(Named(a), Named(b));
    } else if (axes.size() >= 2 && Below(2) == 0) {
      name = "MoveAxis";
      const size_t a = AnyAxis(), b = AnyAxis();
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(a));
      axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(b), static_cast<int64_t>(a));
      result = layout_.MoveAxis(Named(a), Named(b));
    } else {
      name = "Permute";
      std::shuffle(axes.begin(), axes.end(), random_);
      result = layout_.Permute(axes);
    }
    Numbers dims;
    for (const int64_t axis : axes) dims.push_back(model_.dims[static_cast<size_t>(axis)]);
    Take(result, model_.Rearranged(dims, [&](const Numbers& index, Numbers* from) {
      for (size_t i = 0; i < axes.size(); ++i) (*from)[static_cast<size_t>(axes[i])] = index[i];
    }));
    return name;
  }

  std::string Reshape() {
    const auto elements = static_cast<int64_t>(model_.places.size());
    Numbers dims;
    int64_t left = elements;
    while (left > 1 && dims.size() < 5) {
      Numbers divisors;
      for (int64_t d = 2; d <= left; ++d) {
        if (left % d == 0) divisors.push_back(d);
      }
      dims.push_back(divisors[static_cast<size_t>(Below(static_cast<int64_t>(divisors.size())))]);
      left /= dims.back();
    }
    if (left > 1) dims.push_back(left);
    if (elements == 0) dims = {Below(4), 0, Below(4)};
    while (Below(3) == 0 && dims.size() < 6)
      dims.insert(dims.begin() + Below(static_cast<int64_t>(dims.size()) + 1), 1);
    Numbers asked = dims;
    if (elements > 0 && !asked.empty() && Below(2) == 0)
      asked[static_cast<size_t>(Below(static_cast<int64_t>(dims.size())))] = -1;
    Model wanted = {dims, model_.places};
    const absl::StatusOr<Layout> result = layout_.Reshape(asked);
    EXPECT_EQ(result.ok(), wanted.IsStrided()) << "a view must be found exactly where one exists";
    if (result.ok()) {
      Take(result, std::move(wanted));
    } else {
      ++refused_;
      EXPECT_THAT(result, testing::StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("copy")));
    }
    if (model_.dims.size() >= 2 && Below(4) == 0) {
      size_t first = AnyAxis(), last = AnyAxis();
      if (first > last) std::swap(first, last);
      Numbers flat(model_.dims.begin(), model_.dims.begin() + static_cast<std::ptrdiff_t>(first) + 1);
      for (size_t axis = first + 1; axis <= last; ++axis) flat.back() *= model_.dims[axis];
      flat.insert(flat.end(), model_.dims.begin() + static_cast<std::ptrdiff_t>(last) + 1, model_.dims.end());
      Model flattened = {flat, model_.places};
      const absl::StatusOr<Layout> view = layout_.Flatten(Named(first), Named(last));
      EXPECT_EQ(view.ok(), flattened.IsStrided());
      if (view.ok()) Take(view, std::move(flattened));
    }
    return "Reshape";
  }

  std::string Expand() {
    const auto more = static_cast<size_t>(Below(3));
    Numbers dims(more);
    for (int64_t& dim : dims) dim = Between(1, 3);
    Numbers asked = dims;
    for (const int64_t dim : model_.dims) {
      dims.push_back(dim == 1 && Below(2) == 0 ? Between(0, 3) : dim);
      asked.push_back(dims.back() == dim && Below(2) == 0 ? -1 : dims.back());
    }
    Take(layout_.Expand(asked), model_.Rearranged(dims, [&](const Numbers& index, Numbers* from) {
      for (size_t i = 0; i < from->size(); ++i) (*from)[i] = model_.dims[i] == 1 ? 0 : index[more + i];
    }));
    return "Expand";
  }

  std::string SqueezeAll() {
    Numbers dims;
    std::copy_if(model_.dims.begin(), model_.dims.end(), std::back_inserter(dims),
                 [](int64_t dim) { return dim != 1; });
    if (Below(2) == 0) {
      Take(layout_.Squeeze(), Model{dims, model_.places});
    } else if (!model_.dims.empty()) {
      const size_t axis = AnyAxis();
      dims = model_.dims;
      if (dims[axis] == 1) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
      Take(layout_.Squeeze(Named(axis)), Model{dims, model_.places});
    }
    return "Squeeze";
  }

  std::string Unsqueeze() {
    const int64_t rank = static_cast<int64_t>(model_.dims.size());
    const int64_t axis = Between(0, rank);
    Numbers dims = model_.dims;
    dims.insert(dims.begin() + axis, 1);
    Take(layout_.Unsqueeze(Below(2) == 0 ? axis : axis - rank - 1), Model{dims, model_.places});
    return "Unsqueeze";
  }

  std::string Diagonal() {
    const size_t row = AnyAxis();
    size_t column = AnyAxis();
    if (row == column) column = (row + 1) % model_.dims.size();
    const int64_t shift = Between(-4, 4);
    Numbers dims;
    for (size_t axis = 0; axis < model_.dims.size(); ++axis) {
      if (axis != row && axis != column) dims.push_back(model_.dims[axis]);
    }
    int64_t length = 0;
    for (int64_t r = 0; r < model_.dims[row]; ++r) length += r + shift >= 0 && r + shift < model_.dims[column] ? 1 : 0;
    dims.push_back(length);
    Take(layout_.Diagonal(shift, Named(row), Named(column)),
         model_.Rearranged(dims, [&](const Numbers& index, Numbers* from) {
           size_t next = 0;
           for (size_t axis = 0; axis < from->size(); ++axis) {
             if (axis == row) {
               (*from)[axis] = index.back() + std::max(-shift, int64_t{0});
             } else if (axis == column) {
               (*from)[axis] = index.back() + std::max(shift, int64_t{0});
             } else {
               (*from)[axis] = index[next++];
             }
           }
         }));
    return "Diagonal";
  }

  std::string Unfold() {
    const size_t axis = AnyAxis();
    const int64_t size = Between(0, model_.dims[axis]);
    const int64_t step = Between(1, 3);
    Numbers dims = model_.dims;
    dims[axis] = 0;
    for (int64_t start = 0; start + size <= model_.dims[axis]; start += step) ++dims[axis];
    dims.push_back(size);
    Take(layout_.Unfold(Named(axis), size, step), model_.Rearranged(dims, [&](const Numbers& index, Numbers* from) {
      from->assign(index.begin(), index.end() - 1);
      (*from)[axis] = index[axis] * step + index.back();
    }));
    return "Unfold";
  }

  std::string Flip() {
    Numbers axes;
    for (size_t axis = 0; axis < model_.dims.size(); ++axis) {
      if (Below(2) == 0) axes.push_back(Named(axis));
    }
    Take(layout_.Flip(axes), model_.Rearranged(model_.dims, [&](const Numbers& index, Numbers* from) {
      *from = index;
      for (const int64_t axis : axes) {
        const auto at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(model_.dims.size()) : axis);
        (*from)[at] = model_.dims[at] - 1 - index[at];
      }
    }));
    return "Flip";
  }

  // All pieces together are the whole; goes on with one of them.
  std::string Split() {
    const size_t axis = AnyAxis();
    const int64_t size = model_.dims[axis];
    const int64_t count = Between(1, 4);
    const Numbers cuts = {Between(-size - 1, size + 1), Between(-size - 1, size + 1)};
    const int64_t kind = Below(4);
    const absl::StatusOr<std::vector<Layout>> pieces = kind == 0   ? layout_.Split(Named(axis), count)
                                                       : kind == 1 ? layout_.Chunk(Named(axis), count)
                                                       : kind == 2 ? layout_.TensorSplit(Named(axis), count)
                                                                   : layout_.TensorSplitAt(Named(axis), cuts);
    EXPECT_OK(pieces);
    if (!pieces.ok()) return "Split";
    std::vector<Model> models;
    int64_t done = 0;
    for (size_t i = 0; i < pieces->size(); ++i) {
      Numbers dims = model_.dims;
      dims[axis] = (*pieces)[i].dims()[axis];
      if (kind == 3) {
        const Numbers ends = {cuts[0], cuts[1], size};
        const auto clamp = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, int64_t{0}, size); };
        done = i == 0 ? 0 : clamp(ends[i - 1]);
        EXPECT_EQ(dims[axis], std::max(int64_t{0}, clamp(ends[i]) - done));
      }
      models.push_back(model_.Rearranged(dims, [&](const Numbers& index, Numbers* from) {
        *from = index;
        (*from)[axis] += done;
      }));
      EXPECT_EQ(Model::Of((*pieces)[i]), models.back());
      done += dims[axis];
    }
    EXPECT_TRUE(kind == 3 || done == size);
    const auto chosen = static_cast<size_t>(Below(static_cast<int64_t>(pieces->size())));
    Take((*pieces)[chosen], models[chosen]);
    return "Split";
  }

  std::mt19937 random_;
  Layout layout_;
  Model model_;
  int64_t refused_ = 0;
};

// What a layout says of itself, by looking at all its places.
void ExpectProperties(const Layout& layout, const Model& model) {
  const auto count = static_cast<int64_t>(model.places.size());
  ASSERT_EQ(layout.num_elements(), count);
  const std::set<int64_t> different(model.places.begin(), model.places.end());
  EXPECT_EQ(layout.HasInternalOverlap(), different.size() != model.places.size());
  const Layout::Range range = layout.bounds();
  EXPECT_EQ(range.begin, different.empty() ? 0 : *different.begin());
  EXPECT_EQ(range.end, different.empty() ? 0 : *different.rbegin() + 1);
  EXPECT_EQ(layout.IsNonOverlappingAndDense(),
            different.size() == model.places.size() && range.end - range.begin == count);
  bool row_major = true;
  for (size_t i = 0; i < model.places.size(); ++i) {
    row_major = row_major && model.places[i] == model.places[0] + static_cast<int64_t>(i);
  }
  EXPECT_EQ(layout.IsContiguous(), row_major);
  const absl::StatusOr<Layout> dense = layout.Dense(MemoryFormat::kPreserve);
  ASSERT_OK(dense);
  EXPECT_TRUE(dense->IsNonOverlappingAndDense()) << *dense;
  if (count > 0) {
    EXPECT_EQ(dense->bounds().begin, 0);
    EXPECT_EQ(dense->bounds().end, count);
  }
}

TEST(LayoutModel, AMillionChainedOperations) {
  constexpr int kOperations = 1'000'000;
  constexpr int kChainLength = 1000;
  int64_t refused = 0;
  int done = 0;
  for (uint32_t seed = 1; done < kOperations; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Chain chain(seed);
    for (int i = 0; i < kChainLength;) {
      const Layout before = chain.layout();
      const std::string operation = chain.Step();
      if (operation == "none") continue;
      ++i;
      ++done;
      if (Model::Of(chain.layout()) == chain.model()) {
        if (i % 16 == 0) ExpectProperties(chain.layout(), chain.model());
      } else {
        ADD_FAILURE() << operation << " of " << before << " gave " << chain.layout();
      }
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << "after " << operation << " of " << before;
        return;
      }
    }
    refused += chain.refused();
  }
  EXPECT_GT(refused, kOperations / 100);  // reshapes that only a copy could do were among them
}

// Layouts that are hard for the search: equal, close and coprime strides on several axes.
TEST(LayoutModel, InternalOverlapIsExact) {
  std::mt19937 random(7);
  const auto between = [&](int64_t first, int64_t last) {
    return first + static_cast<int64_t>(random() % static_cast<uint64_t>(last - first + 1));
  };
  int overlapping = 0;
  constexpr int kLayouts = 20'000;
  for (int i = 0; i < kLayouts; ++i) {
    Numbers dims(static_cast<size_t>(between(2, 5))), strides;
    const int64_t widest = between(3, 400);
    for (int64_t& dim : dims) {
      dim = between(1, 5);
      strides.push_back(between(1, widest) * (random() % 2 == 0 ? 1 : between(1, 6)));
    }
    const absl::StatusOr<Layout> layout = Layout::Create(dims, strides);
    ASSERT_OK(layout);
    const Numbers places = Model::Of(*layout).places;
    const bool overlaps = std::set<int64_t>(places.begin(), places.end()).size() != places.size();
    ASSERT_EQ(layout->HasInternalOverlap(), overlaps) << *layout;
    overlapping += overlaps ? 1 : 0;
  }
  EXPECT_GT(overlapping, kLayouts / 10);
  EXPECT_LT(overlapping, kLayouts * 9 / 10);
}

}  // namespace
}  // namespace tensorcask
