#include "tensorcask/tests/benchmarks/strided_bars.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/accessor.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/limits.h"
#include "tensorcask/tests/benchmarks/measure.h"
#include "tensorcask/tests/benchmarks/strided_cases.h"
#include "tensorcask/tests/benchmarks/strided_views.h"
#include "tensorcask/tests/benchmarks/units.h"

namespace tensorcask::benchmarks {
namespace {

constexpr double kCopyBar = 1.15;  // times the best loop

// The loops, with memory to write to.
std::vector<std::function<double()>> LoopsInto(CaseViews* views, bool fresh) {
  std::vector<std::function<double()>> loops;
  for (LimitLoop& loop : LimitLoops(views->from)) {
    loops.emplace_back([views, fresh, run = std::move(loop.run)] {
      return SecondsOf([&] {
        if (!fresh) return run(views->to.buffer()->mutable_data());
        const Tensor memory = Require(Tensor::Create(views->to.dtype(), views->to.shape()));
        run(memory.buffer()->mutable_data());
        Keep(memory.buffer()->data());
      });
    });
  }
  return loops;
}

void CopyRows() {
  for (const StridedCase& copied : PromisedCopies()) {
    CaseViews views(copied);
    const TensorView plain = OrdinaryTensor(copied.dtype, views.to.shape());
    const auto copy = [&] {
      if (copied.fresh) {
        Keep(Require(views.from.Clone(MemoryFormat::kContiguous)).buffer()->data());
      } else {
        Require(Copy(views.from, &views.to));
      }
    };
    const Figure ratio = MedianRatio(
        15, copy, [&] { std::memcpy(views.to.buffer()->mutable_data(), plain.buffer()->data(), views.to_bytes()); });
    Row(absl::StrCat("copy ", copied.name), ratio, copied.bar, "x memcpy",
        absl::StrCat("memcpy of the result's bytes; elsewhere ", copied.best_elsewhere));
    size_t fastest = 0;
    const Figure over_limit = RatioToFastest(
        15, [&] { return SecondsOf(copy); }, LoopsInto(&views, copied.fresh), &fastest);
    Row(absl::StrCat("copy ", copied.name, ", its limit"), over_limit, kCopyBar, "x limit",
        absl::StrCat("the same cache lines moved ", LimitLoops(views.from)[fastest].name));
  }
}

// Copies of the first part of each row of a matrix, beside std::memcpy of each.
void RowsOfBytes() {
  struct Columns {
    int64_t row_bytes;
    int64_t step_bytes;
    int64_t total_bytes;
  };
  constexpr int64_t kMiB = 1 << 20;
  for (const Columns& copied :
       {Columns{4 * kMiB, 4 * kMiB, 4 * kMiB}, Columns{64 * kMiB, 64 * kMiB, 64 * kMiB}, Columns{256, 512, 4 * kMiB},
        Columns{16384, 32768, 4 * kMiB}, Columns{256, 512, 64 * kMiB}, Columns{16384, 32768, 64 * kMiB}}) {
    const int64_t num_rows = copied.total_bytes / copied.row_bytes;
    const TensorView matrix = OrdinaryTensor(DType::kUint8, TensorShape({num_rows, copied.step_bytes}));
    const TensorView from = *matrix.Slice(1, 0, copied.row_bytes);
    TensorView to = OrdinaryTensor(DType::kUint8, from.shape());
    const auto copy_rows = [&, source = from.data<uint8_t>(), target = to.mutable_data<uint8_t>()] {
      for (int64_t i = 0; i < num_rows; ++i) {
        std::memcpy(target + i * copied.row_bytes, source + i * copied.step_bytes,
                    static_cast<size_t>(copied.row_bytes));
      }
    };
    const std::string name = num_rows == 1 ? absl::StrCat("copy ", copied.total_bytes / kMiB, " MiB")
                                           : absl::StrCat("copy ", copied.total_bytes / kMiB, " MiB in rows of ",
                                                          copied.row_bytes, " bytes, as long as the gaps");
    Row(name,
        MedianRatio(
            41, [&] { Require(Copy(from, &to)); }, copy_rows),
        kCopyBar, "x memcpy", "memcpy of each row");
  }
}

// Beside std::memset of as many bytes, which is faster for zeros than for others.
void FillRows() {
  for (const int64_t mib : {4, 64}) {
    TensorView to = OrdinaryTensor(DType::kFloat32, TensorShape({mib << 18}));
    auto* const target = to.mutable_data<float>();
    const auto bytes = static_cast<size_t>(to.num_elements()) * sizeof(float);
    for (const int value : {0, 1}) {
      Row(absl::StrCat("fill ", mib, " MiB of float32 with ", value),
          MedianRatio(
              41, [&] { Require(Fill(static_cast<float>(value), &to)); }, [&] { std::memset(target, value, bytes); }),
          value == 0 ? 1.1 : 1.4, "x memset", absl::StrCat("memset to ", value));
    }
  }
}

// Beside std::memcpy that reads and writes as many bytes in all.
void ConversionRows() {
  for (const int64_t mib : {8, 128}) {
    const TensorView from = OrdinaryTensor(DType::kFloat32, TensorShape({mib << 18}));
    TensorView to = Require(Tensor::Create(DType::kBfloat16, from.shape()));
    const auto bytes = static_cast<size_t>(from.num_elements()) * 3;
    const TensorView plain = OrdinaryTensor(DType::kUint8, TensorShape({static_cast<int64_t>(bytes)}));
    TensorView copy = OrdinaryTensor(DType::kUint8, plain.shape());
    const auto copy_bytes = [source = plain.data<uint8_t>(), target = copy.mutable_data<uint8_t>(), bytes] {
      std::memcpy(target, source, bytes);
    };
    Row(absl::StrCat("convert ", mib, " MiB of float32 to bfloat16"),
        MedianRatio(
            41, [&] { Require(Convert(from, &to)); }, copy_bytes),
        1.25, "x memcpy", "memcpy that reads and writes as much");
  }
}

// What a call of `fn`, which is short, takes in units.
template <typename Fn, typename Unit>
Figure CallInUnits(Fn&& fn, Unit&& unit) {
  constexpr int kBatch = 100000;
  const auto batch = [&] {
    for (int i = 0; i < kBatch; ++i) fn();
  };
  return InUnits(21, kBatch, batch, unit);
}

void ViewRows() {
  const TensorView view = OrdinaryTensor(DType::kFloat32, TensorShape({8, 3, 32, 32}));
  const auto row = [](const char* name, auto make) {
    const auto make_and_keep = [&] {
      const auto made = make();
      Keep(&made);
    };
    Row(absl::StrCat("making a view: ", name), CallInUnits(make_and_keep, Allocations), 3, "x malloc",
        absl::StrCat(kOfAllocations, "; LibTorch 26 to 45"));
  };
  const std::vector<int64_t> nhwc = {0, 2, 3, 1};
  const std::vector<int64_t> flat = {24, 1024};
  const std::vector<int64_t> wide = {4, 8, 3, 32, 32};
  const TensorView single = *view.Narrow(0, 2, 1);
  const std::vector<int64_t> wider = {8, 3, 32, 32};
  row("Alias", [&] { return view.Alias(); });
  row("Slice", [&] { return view.Slice(1, 1, 3, 2); });
  row("Narrow", [&] { return view.Narrow(2, 4, 16); });
  row("Select", [&] { return view.Select(0, 3); });
  row("Transpose", [&] { return view.Transpose(1, 2); });
  row("Permute", [&] { return view.Permute(nhwc); });
  row("Reshape", [&] { return view.Reshape(flat); });
  row("Flatten", [&] { return view.Flatten(1, -1); });
  row("Unsqueeze", [&] { return view.Unsqueeze(1); });
  row("Squeeze", [&] { return single.Squeeze(0); });
  row("Expand", [&] { return single.Expand(wider); });
  row("Expand, an axis more", [&] { return view.Expand(wide); });

  const auto copy_handle = [&] {
    const TensorView copy = view;  // NOLINT(performance-unnecessary-copy-initialization): it is what is timed
    Keep(&copy);
  };
  Row("copying a view's handle", CallInUnits(copy_handle, CountPairs), 4, "x count", kOfCountPairs);
  const TensorShape small({2, 2});
  const auto make_small = [&] {
    const TensorView tensor = Require(Tensor::Create(DType::kFloat32, small));
    Keep(&tensor);
  };
  Row("making a small strided tensor", CallInUnits(make_small, Allocations), 6, "x malloc",
      absl::StrCat(kOfAllocations, "; LibTorch 21"));
  Row("bytes of a view", Exactly(sizeof(TensorView)), 128, "bytes", "LibTorch 192 + 8, and the heap");
}

// What a call costs beside a loop that is written for its types, sizes and strides: checks, the choice of a kernel, and
// for new tensors their memory.
void SmallRows() {
  const auto row = [](absl::string_view name, const auto& ours, const auto& loop, absl::string_view loop_name) {
    Figure figure = CallInUnits(ours, Allocations);
    figure.median -= CallInUnits(loop, Allocations).median;
    Row(absl::StrCat("few elements: ", name), figure, 1.8, "x malloc",
        absl::StrCat(kOfAllocations, "; more than ", loop_name));
  };
  const auto floats = [](std::initializer_list<int64_t> dims) {
    return TensorView(OrdinaryTensor(DType::kFloat32, TensorShape(dims)));
  };
  // Copies of `from`, beside `loop(source, target)` over its elements.
  const auto copy_row = [&](absl::string_view name, const TensorView& from, const auto& loop) {
    TensorView to = Require(Tensor::Create(DType::kFloat32, from.shape()));
    row(
        absl::StrCat("Copy of ", name), [&] { Require(Copy(from, &to)); },
        [&, source = from.data<float>(), target = to.mutable_data<float>()] {
          loop(source, target);
          Keep(target);
        },
        "a loop");
  };
  for (const int64_t count : {1, 16, 256}) {
    const auto bytes = static_cast<size_t>(count) * sizeof(float);
    copy_row(absl::StrCat(count, " float32"), floats({count}),
             [bytes](const float* from, float* to) { std::memcpy(to, from, bytes); });
    TensorView halves = Require(Tensor::Create(DType::kBfloat16, TensorShape({count})));
    const TensorView from = floats({count});
    row(
        absl::StrCat("Convert of ", count, " float32 to bfloat16"), [&] { Require(Convert(from, &halves)); },
        [count, source = from.data<float>(), target = halves.mutable_data<bfloat16>()] {
          for (int64_t i = 0; i < count; ++i) target[i] = bfloat16(source[i]);
          Keep(target);
        },
        "a loop");
  }
  copy_row("every second of 31 float32", *floats({31}).Slice(0, 0, {}, 2), [](const float* from, float* to) {
    for (int64_t i = 0; i < 16; ++i) to[i] = from[2 * i];
  });
  copy_row("float32 [5,3], transposed", *floats({3, 5}).Transpose(0, 1), [](const float* from, float* to) {
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 3; ++j) to[i * 3 + j] = from[j * 5 + i];
    }
  });
  TensorView filled = Require(Tensor::Create(DType::kFloat32, TensorShape({16})));
  row(
      "Fill of 16 float32", [&] { Require(Fill(1.0F, &filled)); },
      [target = filled.mutable_data<float>()] {
        std::fill_n(target, 16, 1.0F);
        Keep(target);
      },
      "a loop");
  const TensorView dense = floats({16});
  const TensorView apart = *floats({31}).Slice(0, 0, {}, 2);
  // A new tensor, and a loop into it.
  const auto copied = [](const float* from, int64_t step) {
    TensorView made = Require(Tensor::Create(DType::kFloat32, TensorShape({16})));
    auto* const to = made.mutable_data<float>();
    for (int64_t i = 0; i < 16; ++i) to[i] = from[i * step];
    Keep(to);
  };
  row(
      "Clone of 16 float32", [&] { Keep(Require(dense.Clone()).buffer()->data()); },
      [&] { copied(dense.data<float>(), 1); }, "Tensor::Create and a loop");
  row(
      "ToTensor of 16 float32 apart", [&] { Keep(Require(apart.ToTensor()).buffer()->data()); },
      [&] { copied(apart.data<float>(), 2); }, "Tensor::Create and a loop");
  row(
      "Contiguous of 16 float32 that are",
      [&] {
        const TensorView same = Require(dense.Contiguous());
        Keep(&same);
      },
      [&] {
        const TensorView same = dense;  // NOLINT(performance-unnecessary-copy-initialization): it is what is timed
        Keep(&same);
      },
      "a copied handle");
  TensorView matrix = floats({4, 4});
  row(
      "Accessor to float32 [4,4], read once",
      [&] {
        const auto values = Require(Accessor<const float, 2>::Create(matrix));
        float sum = 0;
        for (int64_t i = 0; i < 4; ++i) {
          for (int64_t j = 0; j < 4; ++j) sum += values(i, j);
        }
        Keep(sum);
      },
      [source = matrix.data<float>()] {
        float sum = 0;
        for (int64_t i = 0; i < 16; ++i) sum += source[i];
        Keep(sum);
      },
      "a loop");
}

}  // namespace

void StridedRows() {
  CopyRows();
  RowsOfBytes();
  FillRows();
  ConversionRows();
  SmallRows();
  ViewRows();
}

}  // namespace tensorcask::benchmarks
