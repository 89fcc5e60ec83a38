// A pickle: refused, or its tensors are named and its values written, in bounded memory. Values that are written as a
// pickle again come back. Half of the inputs may have opaque objects.
//
// Is to reach what input can reach of these files:
//   serialize/torch/internal/[npr]*
//   serialize/torch/internal/tensor_walk*
//   serialize/values/*

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/torch/internal/pickle_writer.h"
#include "tensorcask/serialize/torch/internal/stored_tensors.h"
#include "tensorcask/serialize/torch/internal/tensor_walk.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::torch {
namespace {

// The values as text; "" if they are too many.
std::string Text(const ValueTree& values) {
  ValueJsonOptions options;
  options.max_bytes = 1 << 20;
  return ValueToJson(values.root(), options).value_or("");
}

void CheckWritten(const Pickle& pickle) {
  const ValueTree values = ToValues(pickle, {});  // without tensors
  const absl::StatusOr<std::string> written = WritePickle(values, {});
  if (!written.ok()) return;
  DecodeQuota quota = DecodeQuota::ForUnbacked(DecodeLimits(), written->size());
  const absl::StatusOr<Pickle> again = ReadPickle(*written, {}, &quota);
  FUZZ_CHECK(again.ok(), again.status().ToString());
  FUZZ_CHECK(again->size_bytes == written->size(), "bytes behind the pickle");
  // Floats of an array of NumPy have fewer digits than the same numbers of Python.
  FUZZ_CHECK(!pickle.numpy_arrays.empty() || Text(ToValues(*again, {})) == Text(values), "other values came back");
}

void Check(absl::string_view bytes, bool opaque) {
  DecodeLimits limits;
  limits.max_memory_beyond_input = 1 << 20;
  DecodeQuota quota = DecodeQuota::ForUnbacked(limits, ListingBudget::kBytesPerIndexByte * bytes.size());
  const absl::StatusOr<Pickle> pickle = ReadPickle(bytes, {opaque, opaque}, &quota);
  if (!pickle.ok()) return;
  FUZZ_CHECK(pickle->size_bytes <= bytes.size(), "reads past the end");
  FUZZ_CHECK(opaque || pickle->opaque_names.empty(), "an opaque name");
  ListingBudget budget(limits);
  budget.AddIndex(bytes.size());
  const absl::StatusOr<std::vector<NamedTensor>> joined = FindTensors(*pickle, "", NameForm::kJoined, limits, &budget);
  if (!joined.ok()) return;
  const absl::StatusOr<std::vector<NamedTensor>> exact = FindTensors(*pickle, "", NameForm::kExact, limits, &budget);
  if (exact.ok()) FUZZ_CHECK(exact->size() == joined->size(), "the names of one form are more");
  absl::flat_hash_map<Ref, uint64_t> numbers;
  for (size_t i = 0; i < joined->size(); ++i) {
    numbers.emplace((*joined)[i].object, i);
    const TensorPlace place = PlaceOf(*pickle, (*joined)[i].object);
    if (place.storage == nullptr) continue;
    const uint64_t storage_bytes = place.storage->num_elements * place.storage->element_bytes;
    FUZZ_CHECK(place.begin() <= storage_bytes && place.size_bytes() <= storage_bytes - place.begin(),
               "a tensor leaves its storage");
  }
  CheckWritten(*pickle);
  const ValueTree values = ToValues(*pickle, numbers);
  Text(values);
  if (!exact.ok() || exact->empty() || values.root().kind() != ValueKind::kMap) return;
  FindValue(values.root(), (*exact)[0].name).status().IgnoreError();
}

}  // namespace
}  // namespace tensorcask::torch

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const bool opaque : {false, true}) {
    tensorcask::torch::Check({reinterpret_cast<const char*>(data), size}, opaque);
  }
  return 0;
}
