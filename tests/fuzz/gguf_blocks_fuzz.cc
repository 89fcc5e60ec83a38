// Blocks of each type: any bytes decode, within their memory, block by block as all at once; a slice of a tensor of
// blocks has the elements that the whole has there; and a file that is too short is damage.
//
// The input: type, rows, blocks of a row, the slice, what lies in front of the blocks; the rest are the blocks.
//
// Is to reach what input can reach of these files:
//   serialize/gguf/block_types*
//   serialize/gguf/internal/decode_*
//   serialize/gguf/internal/block_elements*

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/gguf/block_types.h"
#include "tensorcask/serialize/gguf/internal/block_elements.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::gguf {
namespace {

using testing::FuzzInput;

const ElementType& ChooseType(FuzzInput* input) {
  std::vector<const ElementType*> types;
  for (const ElementType& type : AllElementTypes()) {
    if (type.is_block()) types.push_back(&type);
  }
  return *types[static_cast<size_t>(input->Int(0, static_cast<int64_t>(types.size()) - 1))];
}

TensorSlice::Extent ChooseExtent(FuzzInput* input, int64_t dim) {
  TensorSlice::Extent extent;  // the whole axis
  const auto start = static_cast<int64_t>(input->Bits(2));
  const auto length = static_cast<int64_t>(input->Bits(2));
  if (dim == 0) return extent;
  extent.start = start % dim;
  extent.length = 1 + length % (dim - extent.start);
  return extent;
}

// What `type` makes of `blocks`. Both lie in memory of exactly their size, so that a sanitizer sees a step outside.
std::vector<float> Decode(const ElementType& type, absl::string_view blocks, size_t count) {
  const auto bytes = std::make_unique<uint8_t[]>(blocks.size());
  if (!blocks.empty()) std::memcpy(bytes.get(), blocks.data(), blocks.size());
  std::vector<float> numbers(count * type.elements);
  type.decode(bytes.get(), count, numbers.data());
  return numbers;
}

bool SameBits(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

absl::Span<const float> Elements(const Tensor& tensor) {
  return {tensor.data<float>(), static_cast<size_t>(tensor.num_elements())};
}

void Check(FuzzInput input) {
  const ElementType& type = ChooseType(&input);
  const int64_t rows = input.Int(0, 9);
  const int64_t blocks_of_row = input.Int(0, 9);
  const TensorShape shape({rows, blocks_of_row * static_cast<int64_t>(type.elements)});
  const TensorSlice slice =
      *TensorSlice::Create({ChooseExtent(&input, shape.dim(0)), ChooseExtent(&input, shape.dim(1))});
  const auto in_front = static_cast<size_t>(input.Int(0, 7));
  const absl::string_view file = input.Rest();

  const auto source = MakeMemorySource("blocks", file);
  const BlockTensor tensor = {&type, shape, in_front};
  const auto count = static_cast<size_t>(rows * blocks_of_row);
  Tensor whole = *Tensor::Create(DType::kFloat32, shape);
  TensorView out = whole;
  const absl::Status read = ReadBlockElements(*source, tensor, TensorSlice::Full(2), 1, &out);
  if (count > 0 && file.size() < in_front + count * type.bytes) {
    FUZZ_CHECK(absl::IsDataLoss(read) || absl::IsOutOfRange(read), read.ToString());
    return;
  }
  FUZZ_CHECK(read.ok(), read.ToString());
  const absl::string_view blocks = count == 0 ? "" : file.substr(in_front, count * type.bytes);
  FUZZ_CHECK(SameBits(Decode(type, blocks, count), Elements(whole)), type.name.data());
  for (size_t i = 0; i < count; ++i) {
    const std::vector<float> one = Decode(type, blocks.substr(i * type.bytes, type.bytes), 1);
    FUZZ_CHECK(SameBits(one, Elements(whole).subspan(i * type.elements, type.elements)), type.name.data());
  }

  const Tensor wanted = *TensorView(whole).Slice(slice)->ToTensor();
  Tensor part = *Tensor::Create(DType::kFloat32, wanted.shape());
  TensorView part_out = part;
  FUZZ_CHECK(ReadBlockElements(*source, tensor, slice, 1, &part_out).ok(), type.name.data());
  FUZZ_CHECK(SameBits(Elements(part), Elements(wanted)), type.name.data());
}

}  // namespace
}  // namespace tensorcask::gguf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::gguf::Check(tensorcask::testing::FuzzInput(data, size));
  return 0;
}
