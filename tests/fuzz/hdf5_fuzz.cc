// Bytes as an HDF5 file: refused, or all that it lists lies in the file and is read, whole, mapped and in part, with
// one result, and its attributes can be written as JSON.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/hdf5_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask {
namespace {

void CheckTensor(const Hdf5Reader& reader, const Hdf5Entry& entry, size_t file_bytes) {
  FUZZ_CHECK(reader.FindEntry(entry.name) == &entry, entry.name);
  const absl::StatusOr<Tensor> tensor = reader.Read(entry.name);
  const absl::StatusOr<Tensor> mapped = reader.Map(entry.name);
  FUZZ_CHECK(tensor.ok() == mapped.ok(), tensor.status().ToString() + mapped.status().ToString());
  if (!tensor.ok()) return;
  FUZZ_CHECK(!entry.offset || (*entry.offset <= file_bytes && entry.stored_bytes <= file_bytes - *entry.offset),
             entry.name);
  FUZZ_CHECK(tensor->shape() == entry.shape && tensor->dtype() == entry.dtype, entry.name);
  FUZZ_CHECK(tensor->bytes() == mapped->bytes(), entry.name);  // bit by bit: two NaNs are equal
  if (entry.shape.rank() == 0 || entry.shape.num_elements() == 0) return;
  const int last = entry.shape.rank() - 1;
  std::vector<TensorSlice::Extent> extents(static_cast<size_t>(entry.shape.rank()));
  extents[last].start = entry.shape.dim(last) / 3;
  extents[last].length = entry.shape.dim(last) - entry.shape.dim(last) / 3;
  const TensorSlice slice = *TensorSlice::Create(extents);
  const absl::StatusOr<Tensor> part = reader.ReadSlice(entry.name, slice);
  FUZZ_CHECK(part.ok(), part.status().ToString());
  const TensorView whole = *tensor;
  FUZZ_CHECK(part->bytes() == whole.Slice(slice)->ToTensor()->bytes(), entry.name);
}

void Check(absl::string_view bytes) {
  Hdf5ReaderOptions options;
  options.limits.max_file_decoded_bytes = 4 << 20;
  options.limits.max_memory_beyond_input = 1 << 20;
  const absl::StatusOr<Hdf5Reader> reader = Hdf5Reader::OpenSource(MakeMemorySource("fuzz.h5", bytes), options);
  if (!reader.ok()) return;
  FUZZ_CHECK(ValueToJson(reader->values()).ok(), "values");
  for (const Hdf5Entry& entry : reader->entries()) CheckTensor(*reader, entry, bytes.size());
}

}  // namespace
}  // namespace tensorcask

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
