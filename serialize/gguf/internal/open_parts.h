// Opens a GGUF model: one file, or all parts of a split one, whichever of them was named.
//
//   CASK_ASSIGN_OR_RETURN(Model model, OpenModel("llama-00002-of-00003.gguf", options));
//
// FORMAT.md section 3.3 has the rules of split models.

#ifndef TENSORCASK_SERIALIZE_GGUF_INTERNAL_OPEN_PARTS_H_
#define TENSORCASK_SERIALIZE_GGUF_INTERNAL_OPEN_PARTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/gguf/internal/header.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value.h"

namespace tensorcask::gguf {

struct Part {
  std::shared_ptr<const ByteSource> file;
  Header header;
};

struct Model {
  std::vector<Part> parts;         // in order; 1 unless the model is split
  ValueTree values;                // the root is a map of all keys; arrays in files are in the first part
  std::vector<std::string> notes;  // with the names of the files
};

struct OpenOptions {
  ReadOptions read;
  DecodeLimits limits;
  ListingBudget* budget;
};

// How the name of a part ends: "-00001-of-00003.gguf" for the number 0 of 3.
std::string EndOfName(uint64_t number, uint64_t count);
inline constexpr absl::string_view kTensorCountKey = "split.tensors.count";  // counts the tensors of all parts

// Errors, which name the file: those of OpenFileSource and ParseHeader; DataLoss if the parts do not fit together;
// NotFound for a part that is missing; FailedPrecondition for a part whose name does not say where the others are.
absl::StatusOr<Model> OpenModel(const std::string& path, const OpenOptions& options);
// One file. Errors: the same; FailedPrecondition for a part of a split model.
absl::StatusOr<Model> OpenModel(std::shared_ptr<const ByteSource> file, const OpenOptions& options);

}  // namespace tensorcask::gguf

#endif  // TENSORCASK_SERIALIZE_GGUF_INTERNAL_OPEN_PARTS_H_
