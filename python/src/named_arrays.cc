#include "tensorcask/python/src/named_arrays.h"

#include <cstddef>
#include <utility>

#include "tensorcask/python/src/arguments.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/memory_format.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

bool NeedsCopy(const TensorView& view) {
  return view.num_elements() > 0 && view.buffer()->kind() == TensorBuffer::Kind::kExternal;
}

}  // namespace

std::vector<NamedArray> FromNamedArrays(nb::handle tensors, Access access) {
  std::vector<NamedArray> arrays;
  for (const nb::handle item : ItemsOf(tensors, "tensors")) {
    NamedArray named;
    named.name = FromText(item[0], "the name of a tensor");
    named.tensor = FromTensorArgument(item[1], named.name, access);
    arrays.push_back(std::move(named));
  }
  return arrays;
}

RefPtr<Allocator> MemoryForCopies(const std::vector<NamedArray>& arrays, const CopyMemory& memory) {
  std::vector<size_t> sizes;
  for (const NamedArray& named : arrays) {
    const TensorView& view = named.tensor.view;
    if (NeedsCopy(view)) sizes.push_back(static_cast<size_t>(view.num_elements()) * view.element_size());
  }
  return memory.For(std::move(sizes));
}

absl::StatusOr<TensorView> AsItIsNow(const NamedArray& array, const RefPtr<Allocator>& memory) {
  const TensorView& view = array.tensor.view;
  if (!NeedsCopy(view)) return view;
  CASK_ASSIGN_OR_ANNOTATE(TensorView copy, view.Clone(MemoryFormat::kPreserve, memory), Quoted(array.name));
  return copy;
}

}  // namespace tensorcask::python
