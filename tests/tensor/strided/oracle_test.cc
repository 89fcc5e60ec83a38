// Views against PyTorch: shapes, strides, offsets, values, properties and refusals that PyTorch 1.13.1 gave for the
// same operations, from view_oracle.json of the test data. Where we differ on purpose is counted and printed.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using nlohmann::json;
using testing::ReadFileOrFail;
using testing::TestDataFolder;
using Numbers = std::vector<int64_t>;

// Calls fn(index) for each index of `dims`, row-major.
template <typename Fn>
void ForEachIndex(const Numbers& dims, Fn&& fn) {
  if (std::count(dims.begin(), dims.end(), 0) > 0) return;
  Numbers index(dims.size(), 0);
  while (true) {
    fn(index);
    size_t axis = dims.size();
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

Numbers ValuesOf(const TensorView& view) {
  Numbers values;
  ForEachIndex({view.dims().begin(), view.dims().end()}, [&](const Numbers& index) {
    int64_t position = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) position += index[axis] * view.strides()[axis];
    values.push_back(view.data<int64_t>()[position]);
  });
  return values;
}

Numbers PlacesOf(const Layout& layout) {
  Numbers places;
  ForEachIndex({layout.dims().begin(), layout.dims().end()}, [&](const Numbers& index) {
    int64_t place = layout.offset();
    for (size_t axis = 0; axis < index.size(); ++axis) place += index[axis] * layout.strides()[axis];
    places.push_back(place);
  });
  return places;
}

absl::StatusOr<Layout> LayoutOf(const json& row) {
  return Layout::Create(row.at("shape").get<Numbers>(), row.at("stride").get<Numbers>(),
                        row.value("offset", int64_t{0}));
}

class Oracle : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = TestDataFolder("pytorch/view_oracle.json");
    if (path.empty()) GTEST_SKIP() << "no pytorch/view_oracle.json in the test data";
    oracle_ = json::parse(ReadFileOrFail(path));
    // Storage sizes are only told where PyTorch complains about them.
    for (const json& row : oracle_.at("view_ops")) {
      const std::string error = row.value("error", "");
      const std::string tell = "for storage of size ";
      const size_t at = error.find(tell);
      if (at != std::string::npos) storage_[row.at("input").dump()] = std::stoll(error.substr(at + tell.size())) / 8;
    }
  }

  // The input of a row over a storage that holds 0, 1, 2, ...
  TensorView Input(const json& row) {
    const json& input = row.at("input");
    absl::StatusOr<Layout> layout = LayoutOf(input);
    EXPECT_OK(layout);
    const auto known = storage_.find(input.dump());
    const int64_t size = known != storage_.end() ? known->second : layout->bounds().end;
    Tensor storage = *Tensor::Create(DType::kInt64, TensorShape({size}));
    int64_t* const data = storage.mutable_data<int64_t>();
    for (int64_t i = 0; i < size; ++i) data[i] = i;
    if (layout->IsContiguous(MemoryFormat::kChannelsLast2d) && !layout->IsContiguous()) {
      // This one input was converted from row-major: the ramp runs along its indices, not along its storage.
      const Numbers places = PlacesOf(*layout);
      for (size_t i = 0; i < places.size(); ++i) data[places[i]] = static_cast<int64_t>(i);
    }
    absl::StatusOr<TensorView> view = TensorView::Create(storage.buffer(), DType::kInt64, *layout);
    EXPECT_OK(view);
    return *view;
  }

  json oracle_;
  std::map<std::string, int64_t> storage_;
};

absl::StatusOr<TensorView> Apply(const TensorView& view, const std::string& op, const json& args) {
  const auto number = [&](const char* name) { return args.at(name).get<int64_t>(); };
  const auto numbers = [&](const char* name) { return args.at(name).get<Numbers>(); };
  if (op == "select") return view.Select(number("dim"), number("index"));
  if (op == "unsqueeze") return view.Unsqueeze(number("dim"));
  if (op == "squeeze_dim") return view.Squeeze(number("dim"));
  if (op == "squeeze") return view.Squeeze();
  if (op == "slice") return view.Slice(number("dim"), number("start"), number("end"), number("step"));
  if (op == "narrow") return view.Narrow(number("dim"), number("start"), number("length"));
  if (op == "unfold") return view.Unfold(number("dim"), number("size"), number("step"));
  if (op == "transpose") return view.Transpose(number("dim0"), number("dim1"));
  if (op == "diagonal") return view.Diagonal(number("offset"), number("dim1"), number("dim2"));
  if (op == "permute") return view.Permute(numbers("dims"));
  if (op == "view") return view.Reshape(numbers("shape"));
  if (op == "reshape") return view.ReshapeOrCopy(numbers("shape"));
  if (op == "expand") return view.Expand(numbers("shape"));
  if (op == "flatten") return view.FlattenOrCopy();
  if (op == "contiguous") return view.Contiguous();
  if (op == "clone_preserve") return view.Clone();
  if (op == "as_strided") return view.AsStrided(numbers("shape"), numbers("stride"), number("offset"));
  return absl::UnimplementedError("the oracle knows an operation that this test does not: " + op);
}

// Why we accept what PyTorch refuses; empty if we should not.
std::string IntendedDifference(const std::string& op, const json& args) {
  if (op == "slice" && args.at("step").get<int64_t>() < 0) return "slice: negative steps walk back";
  if (op == "as_strided") {
    for (const int64_t stride : args.at("stride").get<Numbers>()) {
      if (stride < 0) return "as_strided: negative strides are allowed inside the memory";
    }
  }
  return "";
}

void ExpectGeometry(const Layout& layout, const json& expected) {
  EXPECT_EQ(Numbers(layout.dims().begin(), layout.dims().end()), expected.at("shape").get<Numbers>());
  EXPECT_EQ(Numbers(layout.strides().begin(), layout.strides().end()), expected.at("stride").get<Numbers>());
  EXPECT_EQ(layout.offset(), expected.at("offset").get<int64_t>());
}

void ExpectProperties(const Layout& layout, const json& expected) {
  EXPECT_EQ(layout.num_elements(), expected.at("numel").get<int64_t>());
  EXPECT_EQ(layout.IsContiguous(), expected.at("contiguous").get<bool>());
  EXPECT_EQ(layout.IsContiguous(MemoryFormat::kChannelsLast2d), expected.value("channels_last", false));
  EXPECT_EQ(layout.IsContiguous(MemoryFormat::kChannelsLast3d), expected.value("channels_last_3d", false));
  EXPECT_EQ(layout.IsNonOverlappingAndDense(), expected.at("non_overlapping_and_dense").get<bool>());
  Numbers places = PlacesOf(layout);
  const std::set<int64_t> different(places.begin(), places.end());
  EXPECT_EQ(layout.HasInternalOverlap(), different.size() != places.size());
  // PyTorch says 0, no; 1, yes (of any stride 0, even without elements); 2, cannot tell.
  const int said = expected.at("internal_overlap").get<int>();
  if (said != 2 && !places.empty()) {
    EXPECT_EQ(layout.HasInternalOverlap(), said == 1);
  }
}

TEST_F(Oracle, ViewOperations) {
  std::map<std::string, int> differences;
  int rows = 0, refused = 0, values = 0;
  for (const json& row : oracle_.at("view_ops")) {
    SCOPED_TRACE(row.dump());
    ++rows;
    const std::string op = row.at("op");
    const json& args = row.at("args");
    const TensorView input = Input(row);
    const absl::StatusOr<TensorView> output = Apply(input, op, args);
    if (row.contains("error")) {
      const std::string why = IntendedDifference(op, args);
      if (!why.empty() && output.ok()) {
        ++differences[why];
        continue;
      }
      ++refused;
      EXPECT_FALSE(output.ok()) << *output;
      EXPECT_THAT(output.status().code(),
                  ::testing::AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kOutOfRange))
          << output.status();
      EXPECT_NE(output.status().message(), "");
      continue;
    }
    ASSERT_OK(output);
    ExpectGeometry(output->layout(), row.at("output"));
    ExpectProperties(output->layout(), row.at("output"));
    if (row.at("is_view").is_boolean()) {
      EXPECT_EQ(output->SharesBufferWith(input), row.at("is_view").get<bool>());
      EXPECT_TRUE(op != "flatten" || input.Flatten().ok() == row.at("is_view").get<bool>());
    }
    if (row.contains("values")) {
      ++values;
      EXPECT_EQ(ValuesOf(*output), row.at("values").get<Numbers>());
    }
  }
  std::cout << rows << " operations, " << refused << " refused as PyTorch does, " << values << " compared by value\n";
  for (const auto& [why, count] : differences)
    std::cout << "intended difference, " << count << " rows: " << why << "\n";
  EXPECT_GE(rows, 1500);
  EXPECT_GE(refused, 300);
}

TEST_F(Oracle, Properties) {
  int rows = 0;
  for (const json& row : oracle_.at("properties")) {
    SCOPED_TRACE(row.dump());
    ++rows;
    const absl::StatusOr<Layout> layout = LayoutOf(row);
    ASSERT_OK(layout);
    ExpectProperties(*layout, row);
    const std::map<std::string, MemoryFormat> formats = {{"contiguous", MemoryFormat::kContiguous},
                                                         {"channels_last", MemoryFormat::kChannelsLast2d},
                                                         {"channels_last_3d", MemoryFormat::kChannelsLast3d}};
    const auto format = formats.find(row.at("made_as").get<std::string>());
    if (format == formats.end()) continue;  // as_strided
    const absl::StatusOr<DimVector> strides = CanonicalStrides(layout->dims(), format->second);
    ASSERT_OK(strides);
    EXPECT_EQ(Numbers(strides->begin(), strides->end()), row.at("stride").get<Numbers>());
  }
  EXPECT_GE(rows, 44);
}

TEST_F(Oracle, DTypeAndComplexViews) {
  const std::map<std::string, DType> dtypes = {{"uint8", DType::kUint8},
                                               {"int16", DType::kInt16},
                                               {"float32", DType::kFloat32},
                                               {"float64", DType::kFloat64},
                                               {"complex64", DType::kComplex64}};
  int rows = 0, refused = 0;
  const auto check = [&](const json& row, DType source, auto&& operation) {
    SCOPED_TRACE(row.dump());
    ++rows;
    const absl::StatusOr<Layout> layout = LayoutOf(row.at("input"));
    ASSERT_OK(layout);
    const Tensor storage = *Tensor::Create(source, TensorShape({std::max(layout->bounds().end, int64_t{1})}));
    const absl::StatusOr<TensorView> view = TensorView::Create(storage.buffer(), source, *layout);
    ASSERT_OK(view);
    const absl::StatusOr<TensorView> output = operation(*view);
    if (row.contains("error")) {
      ++refused;
      EXPECT_THAT(output, testing::StatusIs(absl::StatusCode::kInvalidArgument));
      return;
    }
    ASSERT_OK(output);
    ExpectGeometry(output->layout(), row.at("output"));
    EXPECT_TRUE(output->SharesBufferWith(*view));
  };
  for (const json& row : oracle_.at("dtype_views")) {
    const DType target = dtypes.at(row.at("dst"));
    check(row, dtypes.at(row.at("src")), [&](const TensorView& view) { return view.Bitcast(target); });
  }
  for (const json& row : oracle_.at("complex_views")) {
    const bool to_real = row.at("op") == "view_as_real";
    check(row, to_real ? DType::kComplex64 : DType::kFloat32,
          [&](const TensorView& view) { return to_real ? view.ViewAsReal() : view.ViewAsComplex(); });
  }
  EXPECT_GE(rows, 215);
  EXPECT_GE(refused, 50);
}

TEST_F(Oracle, Broadcasts) {
  for (const json& row : oracle_.at("broadcast")) {
    SCOPED_TRACE(row.dump());
    const absl::StatusOr<TensorShape> a = TensorShape::Create(row.at("a").get<Numbers>());
    const absl::StatusOr<TensorShape> b = TensorShape::Create(row.at("b").get<Numbers>());
    ASSERT_OK(a);
    ASSERT_OK(b);
    const absl::StatusOr<TensorShape> both = BroadcastShapes(*a, *b);
    if (row.contains("error")) {
      EXPECT_THAT(both, testing::StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("axis")));
      continue;
    }
    ASSERT_OK(both);
    const DimVector dims = both->dims();
    EXPECT_EQ(Numbers(dims.begin(), dims.end()), row.at("out").get<Numbers>());
    EXPECT_OK(Layout::RowMajor(*a).BroadcastTo(*both));
    EXPECT_OK(Layout::RowMajor(*b).BroadcastTo(*both));
  }
}

TEST_F(Oracle, StridesOfCopiesAndOfResizedTensors) {
  for (const json& row : oracle_.at("strides_of_copies")) {
    SCOPED_TRACE(row.dump());
    const TensorView view = Input(row);
    const absl::StatusOr<TensorView> clone = view.Clone();
    const absl::StatusOr<TensorView> contiguous = view.Contiguous();
    ASSERT_OK(clone);
    ASSERT_OK(contiguous);
    EXPECT_EQ(Numbers(clone->strides().begin(), clone->strides().end()), row.at("clone_stride").get<Numbers>());
    EXPECT_EQ(Numbers(contiguous->strides().begin(), contiguous->strides().end()),
              row.at("contiguous_stride").get<Numbers>());
    EXPECT_EQ(ValuesOf(*clone), ValuesOf(view));
    EXPECT_EQ(ValuesOf(*contiguous), ValuesOf(view));
  }
  for (const json& row : oracle_.at("resize")) {
    SCOPED_TRACE(row.dump());
    const absl::StatusOr<TensorShape> shape = TensorShape::Create(row.at("to").get<Numbers>());
    ASSERT_OK(shape);
    ExpectGeometry(Layout::RowMajor(*shape), row.at("out"));
  }
}

}  // namespace
}  // namespace tensorcask
