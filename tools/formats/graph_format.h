// Constants of a TensorFlow graph: a GraphDef, or a SavedModel (saved_model.pb). Read only.
//
// A constant is a node with the operation Const; its tensor is the attribute `value`. It is called like its node; in a
// function of the graph like FUNCTION/NODE. If several have one name, the later ones get #2, #3 and so on, the first
// that is free.

#ifndef TENSORCASK_TOOLS_FORMATS_GRAPH_FORMAT_H_
#define TENSORCASK_TOOLS_FORMATS_GRAPH_FORMAT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"

namespace tensorcask::tools {

class GraphArchiveFormat final : public ArchiveFormat {
 public:
  static constexpr char kName[] = "graph";

  absl::string_view name() const override { return kName; }
  // None: a .pb that is written is a message with one tensor.
  std::vector<absl::string_view> extensions() const override { return {}; }
  ArchiveTraits traits() const override;
  bool HoldsDType(DType /*dtype*/) const override { return false; }
  // True if the first fields are those of a graph with a node. A message with a tensor begins otherwise.
  bool Recognizes(const ArchiveProbe& probe) const override;
  // The saved_model.pb of a folder that has no variables and no checkpoint.
  std::vector<std::string> FindIn(const std::string& folder, absl::Span<const std::string> names,
                                  FileSystem* file_system) const override;
  // Reads the whole file. Errors: DataLoss if it is not a graph; ResourceExhausted past max_message_bytes, max_entries,
  // or if the list of constants would take more than max_memory_beyond_input and 16 times the file.
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;
};

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_FORMATS_GRAPH_FORMAT_H_
