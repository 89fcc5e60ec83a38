#include "tensorcask/serialize/archive/internal/graph_items.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/checkpoint/edit_graph.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::archive {
namespace {

using checkpoint::kGraphName;

constexpr absl::string_view kCheckpoint = "checkpoint";

bool IsGraph(const ArchiveEntry& entry) {
  return entry.name == kGraphName && entry.dtype == DType::kString && entry.shape.rank() == 0;
}

// Empty if each tensor of the source keeps its name.
checkpoint::NewNames NewNamesOf(const ArchiveReader& source, const std::vector<ConversionItem>& items) {
  checkpoint::NewNames names;
  for (const ArchiveEntry& entry : source.entries()) names.emplace_hint(names.end(), entry.name, "");
  for (const ConversionItem& item : items) {
    if (item.source == &source) names[item.from->name] = item.name();
  }
  const bool is_same = std::all_of(names.begin(), names.end(), [](const auto& one) { return one.first == one.second; });
  if (is_same) names.clear();
  return names;
}

}  // namespace

std::vector<std::string> IncludeGraph(const ArchiveReader& source, const ArchiveFormat& target,
                                      const std::vector<std::string>& include) {
  std::vector<std::string> all = include;
  const auto is_included = [&](const ArchiveEntry& entry) { return MatchesAny(include, entry.name); };
  if (source.format() == kCheckpoint && target.name() == kCheckpoint &&
      std::any_of(source.entries().begin(), source.entries().end(), is_included)) {
    all.push_back(kGraphName);
  }
  return all;
}

absl::Status UpdateGraphs(const ArchiveFormat& target, std::vector<ConversionItem>* items) {
  for (ConversionItem& item : *items) {
    if (!IsGraph(*item.from)) continue;
    const ArchiveReader& source = *item.source;
    const std::string label = absl::StrCat(source.path(), ": tensor ", Quoted(kGraphName));
    if (item.name() != kGraphName) {
      if (target.name() != kCheckpoint) continue;
      return absl::FailedPreconditionError(absl::StrCat(label, " cannot be called ", Quoted(item.name()),
                                                        ": TensorFlow finds the object graph by its name"));
    }
    const checkpoint::NewNames names = NewNamesOf(source, *items);
    if (names.empty()) continue;
    CASK_ASSIGN_OR_RETURN(const Tensor graph, source.Read(kGraphName));
    CASK_ASSIGN_OR_ANNOTATE(std::string edited, checkpoint::EditObjectGraph(graph.flat<std::string>()[0], names),
                            source.path());
    CASK_ASSIGN_OR_RETURN(Tensor content, Tensor::Create(DType::kString, TensorShape()));
    content.mutable_flat<std::string>()[0] = std::move(edited);
    item.content = std::move(content);
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::archive
