// The object graphs of TensorFlow's checkpoints in a conversion (serialize/archive/convert_archives.h).

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_GRAPH_ITEMS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_GRAPH_ITEMS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/convert_archives.h"

namespace tensorcask::archive {

// ConvertOptions::include with the object graph: from one checkpoint to another, the graph goes with the tensors that
// it names.
std::vector<std::string> IncludeGraph(const ArchiveReader& source, const ArchiveFormat& target,
                                      const std::vector<std::string>& include);

// Gives each object graph among the items the new names of the tensors of its source (checkpoint/edit_graph.h)
// as ConversionItem::content. Reads a graph only if one of these tensors has another name or is left out.
// Errors: FailedPrecondition if the graph cannot follow; DataLoss if it is damaged.
absl::Status UpdateGraphs(const ArchiveFormat& target, std::vector<ConversionItem>* items);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_GRAPH_ITEMS_H_
