// Bytes as an ONNX model, tensor or sequence: what opens keeps its promises, and every way of reading gives the same
// elements; a model that is made of a model, with the same tensors, has them, too, and so has one with another name.
//
// Is to reach what input can reach of these files:
//   serialize/onnx/*.cc
//   serialize/onnx/internal/*.cc
//   serialize/protowire/wire_cursor*

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/onnx/dtypes.h"
#include "tensorcask/serialize/onnx/edit_model.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/serialize/onnx/onnx_writer.h"
#include "tensorcask/serialize/values/file_edits.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::testing {
namespace {

void CheckTensor(const OnnxReader& reader, const OnnxEntry& entry, size_t file_bytes) {
  FUZZ_CHECK(reader.FindEntry(entry.name) == &entry, entry.name);
  const absl::StatusOr<Tensor> tensor = reader.Read(entry.name);
  if (!entry.read_status.ok() || !entry.side_file.empty()) {
    FUZZ_CHECK(!tensor.ok(), "read what is not there");
    return;
  }
  FUZZ_CHECK(entry.offset <= file_bytes && entry.stored_bytes <= file_bytes, entry.name);
  FUZZ_CHECK(entry.dtype == OnnxDType(entry.data_type), entry.name);
  const absl::StatusOr<Tensor> mapped = reader.Map(entry.name);
  FUZZ_CHECK(tensor.ok() == mapped.ok(), tensor.status().ToString() + mapped.status().ToString());
  if (!tensor.ok()) return;
  FUZZ_CHECK(tensor->shape() == entry.shape && tensor->dtype() == entry.dtype, entry.name);
  if (entry.dtype == DType::kString) return;
  FUZZ_CHECK(tensor->bytes() == mapped->bytes(), entry.name);
  if (entry.shape.rank() == 0 || entry.shape.dim(0) == 0) return;
  std::vector<TensorSlice::Extent> extents(static_cast<size_t>(entry.shape.rank()));
  extents[0].start = entry.shape.dim(0) - 1;
  extents[0].length = 1;
  const absl::StatusOr<Tensor> row = reader.ReadSlice(entry.name, *TensorSlice::Create(extents));
  FUZZ_CHECK(row.ok(), row.status().ToString());
  FUZZ_CHECK(row->bytes() == tensor->bytes().substr(tensor->bytes().size() - row->bytes().size()), entry.name);
}

// `bytes` are those of `reader`.
void CheckCopy(const OnnxReader& reader, absl::string_view bytes) {
  MemoryFileSystem files;
  files.Put("m.onnx", bytes);
  OnnxWriterOptions options;
  options.file_system = &files;
  absl::StatusOr<OnnxWriter> writer = OnnxWriter::CreateModel("n.onnx", "m.onnx", options);
  FUZZ_CHECK(writer.ok(), writer.status().ToString());
  std::vector<std::pair<std::string, Tensor>> copied;
  for (const OnnxEntry& entry : reader.entries()) {
    absl::StatusOr<Tensor> tensor = reader.Read(entry.name);
    if (tensor.ok()) copied.emplace_back(entry.name, *std::move(tensor));
  }
  for (const auto& [name, tensor] : copied) {
    FUZZ_CHECK(writer->Declare(name, tensor.dtype(), tensor.shape()).ok(), name);
  }
  for (const auto& [name, tensor] : copied) {
    const absl::Status added = writer->Add(name, tensor);
    // The elements that a side file is said to have would come into the model.
    if (!reader.side_files().empty() && absl::StrContains(added.message(), ": the file would have ")) return;
    FUZZ_CHECK(added.ok(), added.ToString());
  }
  const absl::Status finished = writer->Finish();
  if (!finished.ok() && !reader.side_files().empty()) return;  // which are not there
  FUZZ_CHECK(finished.ok(), finished.ToString());
  OnnxReaderOptions read;
  read.read.file_system = &files;
  const absl::StatusOr<OnnxReader> again = OnnxReader::Open("n.onnx", read);
  FUZZ_CHECK(again.ok(), again.status().ToString());
  FUZZ_CHECK(again->entries().size() == reader.entries().size(), "tensors");
  for (const auto& [name, tensor] : copied) {
    const absl::StatusOr<Tensor> read_again = again->Read(name);
    FUZZ_CHECK(read_again.ok(), read_again.status().ToString());
    FUZZ_CHECK(read_again->dtype() == tensor.dtype() && read_again->shape() == tensor.shape(), name);
    FUZZ_CHECK(tensor.dtype() == DType::kString || read_again->bytes() == tensor.bytes(), name);
  }
}

// Another name for the first tensor, and an entry of the metadata.
void CheckEdit(const OnnxReader& reader, absl::string_view bytes) {
  if (reader.entries().empty()) return;
  MemoryFileSystem files;
  files.Put("m.onnx", bytes);
  const OnnxEntry& first = reader.entries()[0];
  FileEdits edits;
  edits.renames = {{first.name, "new name"}};
  edits.set_metadata = {{"new key", "value"}};
  FileEditOptions edit;
  edit.file_system = &files;
  edit.output = "n.onnx";
  if (!onnx::EditModel("m.onnx", edits, edit).ok()) return;
  OnnxReaderOptions read;
  read.read.file_system = &files;
  const absl::StatusOr<OnnxReader> after = OnnxReader::Open("n.onnx", read);
  FUZZ_CHECK(after.ok(), after.status().ToString());
  FUZZ_CHECK(after->entries().size() == reader.entries().size(), "tensors");
  FUZZ_CHECK(after->metadata().at("new key") == "value", "metadata");
  const OnnxEntry* const renamed = after->FindEntry("new name");
  FUZZ_CHECK(renamed != nullptr && renamed->shape == first.shape && renamed->data_type == first.data_type, first.name);
  const absl::StatusOr<Tensor> tensor = reader.Read(first.name);
  const absl::StatusOr<Tensor> again = after->Read("new name");
  FUZZ_CHECK(tensor.ok() == again.ok(), again.status().ToString());
  FUZZ_CHECK(!tensor.ok() || tensor->dtype() == DType::kString || again->bytes() == tensor->bytes(), first.name);
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tensorcask;           // NOLINT(google-build-using-namespace)
  using namespace tensorcask::testing;  // NOLINT(google-build-using-namespace)
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  OnnxReaderOptions options;
  options.limits.max_file_decoded_bytes = 1 << 20;
  const absl::StatusOr<OnnxReader> reader = OnnxReader::OpenSource(MakeMemorySource("m", bytes), options);
  options.constants = true;
  const absl::StatusOr<OnnxReader> with_constants = OnnxReader::OpenSource(MakeMemorySource("m", bytes), options);
  if (!reader.ok()) {
    FUZZ_CHECK(!with_constants.ok(), "constants change what opens");
    return 0;
  }
  absl::flat_hash_set<std::string> names;
  for (const OnnxEntry& entry : reader->entries()) {
    FUZZ_CHECK(names.insert(entry.name).second, entry.name);
    CheckTensor(*reader, entry, size);
  }
  if (reader->kind() == OnnxReader::Kind::kModel) {
    CheckCopy(*reader, bytes);
    CheckEdit(*reader, bytes);
  }
  int64_t damages = 0;
  const absl::StatusOr<OnnxCounts> counts = reader->VerifyAll([&](const OnnxDamage&) { ++damages; });
  FUZZ_CHECK(counts.ok(), counts.status().ToString());
  const int64_t counted = counts->verified + counts->without_checksum + counts->not_checked + counts->lost;
  FUZZ_CHECK(counted <= static_cast<int64_t>(names.size()), "counted more than there is");
  FUZZ_CHECK(counted + damages >= static_cast<int64_t>(names.size()), "counted less than there is");
  return 0;
}
