// Bytes as a GGUF file: refused, or all that it lists lies in the file and is read, whole, mapped and in part, with one
// result, and its values can be written as JSON. After an edit the file has the same elements and values, and the new
// one.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/gguf/edit_file.h"
#include "tensorcask/serialize/gguf/gguf_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/values/file_edits.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask {
namespace {

void CheckValues(const GgufReader& reader, size_t file_bytes) {
  FUZZ_CHECK(ValueToJson(reader.values()).ok(), "values");
  for (size_t i = 0; i < reader.values().size(); ++i) {
    const Value value = reader.values().entry(i);
    if (value.kind() != ValueKind::kFileArray) continue;
    const FileArray& array = value.file_array();
    FUZZ_CHECK(array.offset <= file_bytes && array.stored_bytes <= file_bytes - array.offset, "array outside");
    const absl::StatusOr<std::string> bytes = reader.ReadArrayBytes(array);
    FUZZ_CHECK(bytes.ok() && bytes->size() == array.stored_bytes, bytes.status().ToString());
    const absl::StatusOr<ValueTree> elements = reader.ReadArray(array);
    if (absl::IsResourceExhausted(elements.status())) continue;
    FUZZ_CHECK(elements.ok() && elements->root().size() == array.count, elements.status().ToString());
  }
}

// Bit by bit: two NaNs are equal.
void CheckTensor(const GgufReader& reader, const GgufEntry& entry, size_t file_bytes) {
  FUZZ_CHECK(entry.stored_bytes == 0 || (entry.offset <= file_bytes && entry.stored_bytes <= file_bytes - entry.offset),
             entry.name);
  FUZZ_CHECK(reader.FindEntry(entry.name) == &entry, entry.name);
  bool zero_padding = false;
  FUZZ_CHECK(reader.Verify(entry.name, &zero_padding).ok(), entry.name);
  const absl::StatusOr<Tensor> tensor = reader.Read(entry.name);
  const absl::StatusOr<Tensor> mapped = reader.Map(entry.name);
  FUZZ_CHECK(tensor.ok() == mapped.ok(), tensor.status().ToString() + mapped.status().ToString());
  if (!tensor.ok()) return;
  FUZZ_CHECK(tensor->shape() == entry.shape && tensor->dtype() == entry.dtype, entry.name);
  FUZZ_CHECK(tensor->bytes() == mapped->bytes(), entry.name);
  if (entry.shape.rank() == 0 || entry.shape.num_elements() == 0) return;
  const int last = entry.shape.rank() - 1;
  std::vector<TensorSlice::Extent> extents(static_cast<size_t>(entry.shape.rank()));
  extents[last].start = entry.shape.dim(last) / 3;
  extents[last].length = entry.shape.dim(last) - entry.shape.dim(last) / 3;
  const TensorSlice slice = *TensorSlice::Create(extents);
  const absl::StatusOr<Tensor> part = reader.ReadSlice(entry.name, slice);
  FUZZ_CHECK(part.ok(), part.status().ToString());
  const absl::StatusOr<TensorView> wanted = TensorView(*tensor).Slice(slice);
  FUZZ_CHECK(wanted.ok() && wanted->ToTensor()->bytes() == part->bytes(), entry.name);
}

// Refused, or all stays but what was changed.
void CheckEdit(absl::string_view bytes, const GgufReaderOptions& options) {
  MemoryFileSystem files;
  files.Put("m.gguf", bytes);
  GgufReaderOptions read = options;
  read.read.file_system = &files;
  read.blocks_as_bytes = true;
  FileEdits edits;
  edits.set_metadata = {{"new key", "int16:-7"}};
  FileEditOptions edit;
  edit.file_system = &files;
  edit.limits = options.limits;
  edit.output = "n.gguf";
  if (!gguf::EditGguf("m.gguf", edits, edit).ok()) return;
  const absl::StatusOr<GgufReader> before = GgufReader::Open("m.gguf", read);
  const absl::StatusOr<GgufReader> after = GgufReader::Open("n.gguf", read);
  if (absl::IsResourceExhausted(after.status())) return;  // for the new key
  FUZZ_CHECK(before.ok() && after.ok(), after.status().ToString());
  FUZZ_CHECK(before->entries().size() == after->entries().size(), "tensors");
  for (const GgufEntry& entry : before->entries()) {
    const absl::StatusOr<Tensor> old = before->Read(entry.name);
    const absl::StatusOr<Tensor> now = after->Read(entry.name);
    FUZZ_CHECK(old.ok() == now.ok(), entry.name);
    FUZZ_CHECK(!old.ok() || (old->shape() == now->shape() && old->bytes() == now->bytes()), entry.name);
  }
  FUZZ_CHECK(after->values().size() <= before->values().size() + 1, "keys");
  const absl::StatusOr<Value> set = FindValue(after->values(), "[\"new key\"]");
  FUZZ_CHECK(set.ok() && set->kind() == ValueKind::kInt && set->int_value() == -7, "new key");
}

void Check(absl::string_view bytes) {
  GgufReaderOptions options;
  options.limits.max_file_decoded_bytes = 4 << 20;
  options.limits.max_memory_beyond_input = 1 << 20;
  const absl::StatusOr<GgufReader> reader = GgufReader::OpenSource(MakeMemorySource("m.gguf", bytes), options);
  if (!reader.ok()) return;
  CheckValues(*reader, bytes.size());
  for (const GgufEntry& entry : reader->entries()) CheckTensor(*reader, entry, bytes.size());
  CheckEdit(bytes, options);
}

}  // namespace
}  // namespace tensorcask

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
