// A managed tensor of DLPack with any fields over memory of ours: taken or refused, the deleter is called once, and
// what is taken can be read and goes out again alike.
//
// Is to reach what input can reach of these files:
//   tensor/interop/dlpack*

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/interop/dlpack.h"
#include "tensorcask/tensor/interop/dlpack_abi.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::testing {
namespace {

constexpr size_t kMemoryBytes = 4096;
constexpr size_t kMaxAxes = 8;  // with sizes and strides after them

template <typename Managed>
struct Producer {
  Managed managed = {};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  alignas(64) char memory[kMemoryBytes];
  int released = 0;

  static void Release(Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->released; }
};

// Any fields, most of them near what makes sense.
template <typename Managed>
void Fill(FuzzInput* input, Producer<Managed>* producer) {
  std::fill(producer->memory, producer->memory + kMemoryBytes, '\1');  // which is a bool, too
  dlpack::DLTensor& tensor = producer->managed.dl_tensor;
  tensor.device = {static_cast<int32_t>(input->Int(0, 3)), 0};
  tensor.dtype.code = static_cast<uint8_t>(input->Int(0, 18));
  tensor.dtype.bits = static_cast<uint8_t>(input->Bits(1));
  tensor.dtype.lanes = static_cast<uint16_t>(input->Int(0, 2));
  const uint64_t present = input->Bits(1);
  tensor.ndim = static_cast<int32_t>(input->AnyInt());
  const size_t axes = static_cast<size_t>(std::clamp<int32_t>(tensor.ndim, 0, static_cast<int32_t>(kMaxAxes)));
  // A shape of fewer sizes than it says cannot be told from one in memory: only negative and huge ranks are tried.
  if (tensor.ndim > static_cast<int32_t>(kMaxAxes) && tensor.ndim <= TensorShape::kMaxRank) tensor.ndim = kMaxAxes;
  for (size_t axis = 0; axis < axes; ++axis) {
    producer->shape.push_back(input->AnyInt());
    producer->strides.push_back(input->AnyInt());
  }
  tensor.shape = (present & 1) != 0 ? nullptr : producer->shape.data();
  tensor.strides = (present & 2) != 0 ? nullptr : producer->strides.data();
  tensor.byte_offset = static_cast<uint64_t>(input->AnyInt());
  tensor.data = (present & 4) != 0 ? nullptr : producer->memory;
  producer->managed.manager_ctx = producer;
  producer->managed.deleter = &Producer<Managed>::Release;
}

// True if the elements that the fields name are in our memory, so that they may be looked at. The library cannot know.
bool IsReal(const dlpack::DLTensor& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > static_cast<int32_t>(kMaxAxes)) return false;
  if (tensor.shape == nullptr && tensor.ndim > 0) return false;
  constexpr int64_t kLimit = 1 << 20;  // farther apart they are not real, and sums of these do not overflow
  int64_t low = 0, high = 0, dense = 1;
  for (int32_t axis = tensor.ndim - 1; axis >= 0; --axis) {
    const int64_t size = tensor.shape[axis];
    if (size < 0 || size > kLimit) return false;
    if (size == 0) return true;  // none at all
    const int64_t stride = tensor.strides != nullptr ? tensor.strides[axis] : dense;
    if (stride < -kLimit || stride > kLimit) return false;
    (stride < 0 ? low : high) += (size - 1) * stride;
    dense = std::min(dense * size, kLimit);
  }
  if (low < -kLimit || high > kLimit || tensor.byte_offset > kMemoryBytes) return false;
  const int64_t element_bytes = (tensor.dtype.bits + 7) / 8;
  const int64_t begin = static_cast<int64_t>(tensor.byte_offset) + low * element_bytes;
  const int64_t end = static_cast<int64_t>(tensor.byte_offset) + (high + 1) * element_bytes;
  return tensor.data != nullptr && begin >= 0 && end <= static_cast<int64_t>(kMemoryBytes);
}

// Reads all elements, and hands the view out and in again. Copies repeat what the view repeats: not of large ones.
void CheckView(const TensorView& view) {
  if (view.num_elements() > 10000) return;
  const absl::StatusOr<Tensor> copy = view.ToTensor();
  FUZZ_CHECK(copy.ok(), copy.status().ToString());
  absl::StatusOr<DLPackPtr> out = ToDLPack(view);
  FUZZ_CHECK(out.ok(), out.status().ToString());
  const absl::StatusOr<TensorView> again = FromDLPack(out->release());
  FUZZ_CHECK(again.ok(), again.status().ToString());
  FUZZ_CHECK(again->dtype() == view.dtype() && again->dims() == view.dims(), again->ToString());
  const absl::StatusOr<Tensor> same = again->ToTensor();
  FUZZ_CHECK(same.ok() && same->bytes() == copy->bytes(), again->ToString());
}

template <typename Managed, typename Import>
void Check(FuzzInput* input, Producer<Managed>* producer, Import import) {
  Fill(input, producer);
  const bool is_real = IsReal(producer->managed.dl_tensor);
  DLPackImportOptions options;
  options.copy = static_cast<DLPackCopy>(input->Int(0, 2));
  options.legacy_is_writable = input->Bits(1) % 2 != 0;
  if (!is_real) {
    // Nothing may be read where there is nothing: neither for a copy nor to look at bools.
    options.copy = DLPackCopy::kNever;
    if (producer->managed.dl_tensor.dtype.code == dlpack::kDLBool) return;
  }
  {
    const absl::StatusOr<TensorView> view = import(&producer->managed, options);
    if (!view.ok()) FUZZ_CHECK(producer->released == 1, view.status().ToString());
    if (view.ok() && is_real) CheckView(*view);
  }
  FUZZ_CHECK(producer->released == 1, "the deleter is called once");
}

void Run(FuzzInput input) {
  const uint64_t kind = input.Bits(1);
  if (kind % 4 == 0) {
    Producer<dlpack::DLManagedTensor> producer;
    Check(&input, &producer, FromLegacyDLPack);
    return;
  }
  Producer<dlpack::DLManagedTensorVersioned> producer;
  producer.managed.version = {kind == 1 ? 2u : 1u, static_cast<uint32_t>(input.Int(0, 3))};
  producer.managed.flags = input.Bits(1);
  Check(&input, &producer, FromDLPack);
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::testing::Run(tensorcask::testing::FuzzInput(data, size));
  return 0;
}
