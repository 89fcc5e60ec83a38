// Bytes as a safetensors file, strict and lenient: what opens keeps its promises, and what strict reading accepts comes
// back from the writer the same. Inputs that begin with '#' are the index of a model instead.
//
// Is to reach what input can reach of these files:
//   serialize/safetensors/safetensors_reader*
//   serialize/safetensors/internal/*

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/safetensors/model_index.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::testing {
namespace {

absl::StatusOr<SafetensorsReader> Open(absl::string_view bytes, bool lenient, bool verify) {
  SafetensorsReaderOptions options;
  options.lenient = lenient;
  options.verify = verify;
  options.limits.max_file_decoded_bytes = 1 << 20;
  return SafetensorsReader::OpenSource(MakeMemorySource("m", bytes), options);
}

// Every way of reading gives the same elements.
void CheckTensor(const SafetensorsReader& reader, const SafetensorsEntry& entry, size_t file_bytes) {
  FUZZ_CHECK(entry.offset <= file_bytes && entry.stored_bytes <= file_bytes - entry.offset, entry.name);
  FUZZ_CHECK(reader.FindEntry(entry.name) == &entry, entry.name);
  const absl::StatusOr<Tensor> tensor = reader.Read(entry.name);
  const absl::StatusOr<Tensor> mapped = reader.Map(entry.name);
  FUZZ_CHECK(tensor.ok() == mapped.ok(), tensor.status().ToString() + mapped.status().ToString());
  if (!tensor.ok()) return;
  FUZZ_CHECK(tensor->shape() == entry.shape && tensor->dtype() == entry.dtype, entry.name);
  FUZZ_CHECK(tensor->bytes() == mapped->bytes(), entry.name);
  if (entry.shape.rank() == 0 || entry.shape.dim(0) == 0) return;
  TensorSlice::Extent last;
  last.start = entry.shape.dim(0) - 1;
  last.length = 1;
  std::vector<TensorSlice::Extent> extents(static_cast<size_t>(entry.shape.rank()));
  extents[0] = last;
  const absl::StatusOr<Tensor> row = reader.ReadSlice(entry.name, *TensorSlice::Create(extents));
  FUZZ_CHECK(row.ok(), row.status().ToString());
  FUZZ_CHECK(row->bytes() == tensor->bytes().substr(tensor->bytes().size() - row->bytes().size()), entry.name);
}

// What was read comes back from the writer the same, twice in the same bytes.
void CheckRoundTrip(const SafetensorsReader& reader) {
  const auto all = reader.ReadAll();
  if (!all.ok()) return;
  MemoryFileSystem files;
  for (const char* path : {"a", "b"}) {
    SafetensorsWriterOptions options;
    options.file_system = &files;
    options.metadata = reader.metadata();
    options.order = SafetensorsOrder::kAsAdded;
    absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(path, options);
    FUZZ_CHECK(writer.ok(), writer.status().ToString());
    for (const SafetensorsEntry& entry : reader.entries()) {
      const absl::Status added = entry.alias_of.empty() ? writer->Add(entry.name, all->at(entry.name))
                                                        : writer->AddAlias(entry.name, entry.alias_of);
      if (entry.name == "tensorcask.crc32c") return;  // reserved
      FUZZ_CHECK(added.ok(), added.ToString());
    }
    const absl::Status finished = writer->Finish();
    FUZZ_CHECK(finished.ok(), finished.ToString());
  }
  const std::string bytes = *files.Find("a");
  FUZZ_CHECK(bytes == *files.Find("b"), "the bytes are not deterministic");
  const absl::StatusOr<SafetensorsReader> again = Open(bytes, /*lenient=*/false, /*verify=*/true);
  FUZZ_CHECK(again.ok(), again.status().ToString());
  FUZZ_CHECK(again->notes().empty(), "the writer's file has notes");
  FUZZ_CHECK(again->entries().size() == reader.entries().size(), "other tensors");
  for (const SafetensorsEntry& entry : reader.entries()) {
    const absl::StatusOr<Tensor> tensor = again->Read(entry.name);
    FUZZ_CHECK(tensor.ok() && tensor->shape() == entry.shape, tensor.status().ToString());
    FUZZ_CHECK(tensor->bytes() == all->at(entry.name).bytes(), entry.name);
  }
}

void CheckIndex(absl::string_view text) {
  safetensors::ParseOptions options;
  const absl::StatusOr<safetensors::ModelIndex> index = safetensors::ParseModelIndex(text, options);
  if (!index.ok()) return;
  for (const auto& [tensor, file] : index->files) FUZZ_CHECK(safetensors::IsPlainFileName(file), file);
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tensorcask;           // NOLINT(google-build-using-namespace)
  using namespace tensorcask::testing;  // NOLINT(google-build-using-namespace)
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!bytes.empty() && bytes.front() == '#') {
    CheckIndex(bytes.substr(1));
    return 0;
  }
  const absl::StatusOr<SafetensorsReader> strict = Open(bytes, /*lenient=*/false, /*verify=*/false);
  const absl::StatusOr<SafetensorsReader> verified = Open(bytes, /*lenient=*/false, /*verify=*/true);
  const absl::StatusOr<SafetensorsReader> lenient = Open(bytes, /*lenient=*/true, /*verify=*/true);
  FUZZ_CHECK(strict.ok() == verified.ok(), "verify changes what opens");
  if (strict.ok()) {
    FUZZ_CHECK(lenient.ok(), lenient.status().ToString());
    FUZZ_CHECK(lenient->entries().size() == strict->entries().size(), "lenient reading gives other tensors");
    for (const SafetensorsEntry& entry : strict->entries()) CheckTensor(*strict, entry, size);
    CheckRoundTrip(*strict);
  }
  if (lenient.ok()) {
    for (const SafetensorsEntry& entry : lenient->entries()) CheckTensor(*lenient, entry, size);
  }
  return 0;
}
