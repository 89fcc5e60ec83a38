// A program of view operations over one small tensor. After each step the elements are where the layout says, inside
// the buffer, and a model, the list of the elements' numbers in row-major order, agrees where an operation keeps it.
//
// Is to reach what input can reach of these files:
//   tensor/strided/layout*
//   tensor/strided/view*

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::testing {
namespace {

constexpr int64_t kMaxElements = 4096;  // looked at one by one; a view may repeat elements without end

// Numbers of the elements, from the start of the buffer, in row-major order.
std::vector<int64_t> ElementsOf(const Layout& layout) {
  std::vector<int64_t> elements = {layout.offset()};
  for (int axis = 0; axis < layout.rank(); ++axis) {
    std::vector<int64_t> next;
    next.reserve(elements.size() * static_cast<size_t>(layout.dim(axis)));
    for (const int64_t element : elements) {
      for (int64_t i = 0; i < layout.dim(axis); ++i) next.push_back(element + i * layout.stride(axis));
    }
    elements = std::move(next);
  }
  return elements;
}

void CheckView(const TensorView& view) {
  const Layout& layout = view.layout();
  const Layout::Range bounds = layout.bounds();
  if (layout.num_elements() == 0) return;
  FUZZ_CHECK(bounds.begin >= 0 && bounds.begin < bounds.end, view.ToString());
  const size_t buffer_elements = view.buffer()->size_bytes() / view.element_size();
  FUZZ_CHECK(static_cast<size_t>(bounds.end) <= buffer_elements, view.ToString());
  if (layout.num_elements() > kMaxElements) return;
  std::vector<int64_t> elements = ElementsOf(layout);
  const auto [low, high] = std::minmax_element(elements.begin(), elements.end());
  FUZZ_CHECK(*low == bounds.begin && *high == bounds.end - 1, view.ToString());
  std::sort(elements.begin(), elements.end());
  const bool overlaps = std::adjacent_find(elements.begin(), elements.end()) != elements.end();
  FUZZ_CHECK(layout.HasInternalOverlap() == overlaps, view.ToString());
  const bool dense = !overlaps && bounds.end - bounds.begin == static_cast<int64_t>(elements.size());
  FUZZ_CHECK(layout.IsNonOverlappingAndDense() == dense, view.ToString());
}

// Every copy has the bytes that the layout names.
void CheckCopies(const TensorView& view) {
  if (view.num_elements() > kMaxElements) return;
  const absl::StatusOr<Tensor> dense = view.ToTensor();
  FUZZ_CHECK(dense.ok(), dense.status().ToString());
  const size_t element_size = view.element_size();
  const absl::string_view bytes = view.buffer() ? view.buffer()->bytes() : absl::string_view();
  size_t at = 0;
  if (view.num_elements() > 0) {
    for (const int64_t element : ElementsOf(view.layout())) {
      FUZZ_CHECK(dense->bytes().substr(at, element_size) ==
                     bytes.substr(static_cast<size_t>(element) * element_size, element_size),
                 view.ToString());
      at += element_size;
    }
  }
  FUZZ_CHECK(at == dense->bytes().size(), view.ToString());
  for (const MemoryFormat format :
       {MemoryFormat::kPreserve, MemoryFormat::kContiguous, MemoryFormat::kChannelsLast2d}) {
    const absl::StatusOr<TensorView> clone = view.Clone(format);
    if (!clone.ok()) {
      FUZZ_CHECK(format == MemoryFormat::kChannelsLast2d && view.rank() != 4, clone.status().ToString());
      continue;
    }
    CheckView(*clone);
    const absl::StatusOr<Tensor> same = clone->ToTensor();
    FUZZ_CHECK(same.ok() && same->bytes() == dense->bytes() && same->shape() == dense->shape(), view.ToString());
  }
}

std::vector<int64_t> Numbers(FuzzInput* input) {
  std::vector<int64_t> numbers(static_cast<size_t>(input->Int(0, 7)));
  for (int64_t& number : numbers) number = input->AnyInt();
  return numbers;
}

std::optional<int64_t> Maybe(FuzzInput* input) {
  if (input->Bits(1) % 4 == 0) return std::nullopt;
  return input->AnyInt();
}

absl::StatusOr<TensorView> OneOf(absl::StatusOr<std::vector<TensorView>> pieces, FuzzInput* input) {
  if (!pieces.ok()) return pieces.status();
  if (pieces->empty()) return absl::InvalidArgumentError("no pieces");
  return (*pieces)[input->Bits(1) % pieces->size()];
}

constexpr uint64_t kNumOperations = 26;

absl::StatusOr<TensorView> Step(const TensorView& view, uint64_t operation, FuzzInput* input) {
  constexpr DType kDTypes[] = {DType::kUint8, DType::kFloat16, DType::kFloat32,   DType::kFloat64,
                               DType::kBool,  DType::kInt4,    DType::kComplex64, DType::kComplex128};
  // Taken one by one: a compiler may evaluate the arguments of a call in any order.
  const int64_t a = input->AnyInt();
  const int64_t b = input->AnyInt();
  const int64_t c = input->AnyInt();
  switch (operation) {
    case 0: {
      const std::optional<int64_t> start = Maybe(input);
      return view.Slice(a, start, Maybe(input), b);
    }
    case 1:
      return view.Narrow(a, b, c);
    case 2:
      return view.Select(a, b);
    case 3:
      return view.Diagonal(a, b, c);
    case 4:
      return view.Unfold(a, b, c);
    case 5:
      return OneOf(view.Split(a, b), input);
    case 6:
      return OneOf(view.SplitSizes(a, Numbers(input)), input);
    case 7:
      return OneOf(view.Chunk(a, b), input);
    case 8:
      return OneOf(view.TensorSplit(a, b), input);
    case 9:
      return OneOf(view.TensorSplitAt(a, Numbers(input)), input);
    case 10:
      return view.Transpose(a, b);
    case 11:
      return view.Permute(Numbers(input));
    case 12:
      return view.MoveAxis(a, b);
    case 13:
      return view.Flip(Numbers(input));
    case 14:
      return view.Reshape(Numbers(input));
    case 15:
      return view.Flatten(a, b);
    case 16:
      return view.Squeeze(a);
    case 17:
      return view.Squeeze();
    case 18:
      return view.Unsqueeze(a);
    case 19:
      return view.Expand(Numbers(input));
    case 20: {
      const std::vector<int64_t> dims = Numbers(input);
      const std::vector<int64_t> strides = Numbers(input);
      return view.AsStrided(dims, strides, Maybe(input));
    }
    case 21:
      return view.Bitcast(kDTypes[input->Bits(1) % 8]);
    case 22:
      return view.ViewAsReal();
    case 23:
      return view.ViewAsComplex();
    case 24: {
      TensorView changed = view.Alias();
      const std::vector<int64_t> dims = Numbers(input);
      const absl::Status status = changed.SetDimsAndStrides(dims, Numbers(input));
      if (!status.ok()) return status;
      return changed;
    }
    default: {
      TensorView changed = view.Alias();
      const absl::Status status = a % 2 == 0 ? changed.SetOffset(b) : changed.ResizeDim(static_cast<int>(b % 300));
      if (!status.ok()) return status;
      return changed;
    }
  }
}

// The same elements in the same order, or in one that is known.
void CheckStep(const TensorView& before, const TensorView& after, uint64_t operation) {
  const bool same_order = operation >= 14 && operation <= 18;  // Reshape to Unsqueeze
  if (!same_order || before.num_elements() > kMaxElements) return;
  FUZZ_CHECK(after.num_elements() == before.num_elements(), after.ToString());
  if (before.num_elements() == 0) return;
  FUZZ_CHECK(ElementsOf(after.layout()) == ElementsOf(before.layout()), before.ToString() + " -> " + after.ToString());
}

void Run(FuzzInput input) {
  std::vector<int64_t> dims(static_cast<size_t>(input.Int(0, 6)));
  for (int64_t& dim : dims) dim = input.Int(0, 4);
  const TensorShape shape = *TensorShape::Create(dims);
  Tensor tensor = *Tensor::Zeros(input.Bits(1) % 2 == 0 ? DType::kUint8 : DType::kFloat32, shape);
  const absl::Span<char> bytes = tensor.mutable_bytes();
  std::iota(bytes.begin(), bytes.end(), '\1');
  TensorView view = tensor;
  for (int steps = 0; steps < 24 && !input.empty(); ++steps) {
    const uint64_t operation = input.Bits(1) % kNumOperations;
    const absl::StatusOr<TensorView> next = Step(view, operation, &input);
    if (!next.ok()) {
      FUZZ_CHECK(!next.status().message().empty(), "an error says nothing");
      continue;
    }
    CheckView(*next);
    CheckStep(view, *next, operation);
    view = *next;
  }
  CheckCopies(view);
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::testing::Run(tensorcask::testing::FuzzInput(data, size));
  return 0;
}
