#include "tensorcask/serialize/archive/convert_archives.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/internal/dry_file_system.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

// Data files up to the last that is used. An overwriting save may add an empty one, and then must not add one to that.
int NumUsedShards(const ConversionPlan& plan) {
  int num_shards = 1;
  for (const ConversionItem& item : plan.items)
    num_shards = std::max(num_shards, (item.keep_shard ? item.from->shard.value_or(0) : 0) + 1);
  return num_shards;
}

}  // namespace

ArchiveEntry ConversionItem::to() const {
  ArchiveEntry entry = *from;
  entry.name = name();
  entry.alias_of = alias_of;
  entry.dtype = dtype;
  entry.has_metadata = keep_metadata;
  if (!keep_encoding) entry.encoding = "plain";
  if (!keep_strides) entry.strides.clear();
  if (!keep_shard) entry.shard.reset();
  return entry;
}

std::vector<std::string> NotHeldBesideTensors(const ArchiveReader& source, const ArchiveFormat& target) {
  if (const absl::StatusOr<ValueTree> values = source.Values(); values.ok() && source.file_metadata().empty()) {
    const bool is_empty = values->empty() || (values->root().kind() == ValueKind::kMap && values->root().size() == 0);
    if (is_empty) return {};  // no plan of all tensors is needed to tell
  }
  ConvertOptions options;
  options.allow_loss = true;
  absl::StatusOr<ConversionPlan> plan = PlanConversion({&source}, target, options);
  if (!plan.ok()) {
    return {absl::StrCat(source.path(), ": the values beside the tensors stay behind: ", plan.status().message())};
  }
  std::vector<std::string> sentences = std::move(plan->notes);
  for (ConvertLoss& loss : plan->losses) {
    const bool is_beside = loss.kind == ConvertLoss::Kind::kFileMetadata || loss.kind == ConvertLoss::Kind::kValue;
    if (is_beside) sentences.push_back(std::move(loss.message));
  }
  return sentences;
}

std::vector<std::string> UnreadableTensors(const ArchiveReader& source) {
  constexpr size_t kMaxNamed = 100;
  std::vector<std::string> sentences;
  size_t count = 0;
  for (const ArchiveEntry& entry : source.entries()) {
    if (entry.read_status.ok() || ++count > kMaxNamed) continue;
    sentences.emplace_back(source.CheckReadable(entry).message());
  }
  if (count > kMaxNamed) {
    sentences.push_back(absl::StrCat(source.path(), ": ", count - kMaxNamed, " more tensors that cannot be read"));
  }
  return sentences;
}

absl::StatusOr<ConvertReport> ConvertArchives(absl::Span<const ArchiveReader* const> sources, const std::string& path,
                                              const ArchiveFormat& target, const ConvertOptions& options,
                                              const ArchiveWriterOptions& write) {
  if (!target.traits().is_written) return target.Create(path, write).status();
  CASK_ASSIGN_OR_RETURN(ConversionPlan plan, PlanConversion(sources, target, options, {path, write.file_system}));
  const bool had_tensors = std::any_of(sources.begin(), sources.end(),
                                       [](const ArchiveReader* source) { return !source->entries().empty(); });
  if (plan.items.empty() && had_tensors) {
    if (options.planned) options.planned(plan, ReplacedFiles());
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": ", target.name_with_article(), " file can hold none of the tensors; nothing is written"));
  }
  if (!target.traits().many_tensors && plan.items.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", target.name_with_article(),
                                                   " file holds exactly one tensor, ", plan.items.size(), " remain"));
  }
  ArchiveWriterOptions planned = write;
  planned.file_metadata = std::move(plan.file_metadata);
  planned.values = std::move(plan.values);
  planned.nested = plan.nested;
  // A file of the same format is the one that the new file is made of.
  const bool has_base = sources.size() == 1 && sources[0]->format() == target.name();
  if (has_base) planned.source_path = sources[0]->base_path();
  planned.store_opaquely = plan.store_opaquely;
  planned.num_shards = write.overwrite ? NumUsedShards(plan) : plan.num_shards;
  if (planned.num_shards > 1 || write.level > PayloadLevel::kStored) {
    planned.num_threads = std::max(write.num_threads, options.num_threads);
  }
  DryFileSystem dry(write.file_system);
  if (options.dry_run) planned.file_system = &dry;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveWriter> writer, target.Create(path, planned));
  planned.file_metadata.clear();
  planned.values.clear();
  return RunConversion(plan, options, writer.get());
}

}  // namespace tensorcask
