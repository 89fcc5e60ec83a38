#include "tensorcask/serialize/archive/formats/internal/sharded_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/formats/internal/forwarding_reader.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::archive {
namespace {

class ShardedReader final : public ForwardingReader<ArchiveReader> {
 public:
  explicit ShardedReader(ShardedParts parts) : parts_(std::move(parts)) {}

  // Compares each name of the index with what the files have.
  absl::Status List(ListingBudget* budget) {
    for (size_t i = 0; i < parts_.shards.size(); ++i) CASK_RETURN_IF_ERROR(ListShard(static_cast<int>(i), budget));
    for (const auto& [name, shard] : parts_.index) {
      if (found_.contains(name)) continue;
      ArchiveEntry entry;
      entry.name = name;
      entry.encoding = "not readable";
      entry.shard = NumberOf(shard);
      const ShardedParts::Shard& of = parts_.shards[static_cast<size_t>(*entry.shard)];
      entry.read_status =
          of.reader != nullptr
              ? absl::DataLossError(absl::StrCat(path(), " says that it is in ", of.path, ", which does not have it"))
              : of.status;
      CASK_RETURN_IF_ERROR(Keep(std::move(entry), budget));
    }
    std::sort(entries_.begin(), entries_.end(),
              [](const ArchiveEntry& a, const ArchiveEntry& b) { return a.name < b.name; });
    for (size_t i = 1; i < entries_.size(); ++i) {
      if (entries_[i].name != entries_[i - 1].name) continue;
      return absl::DataLossError(absl::StrCat(path(), ": two files have the tensor ", Quoted(entries_[i].name),
                                              ", which the index does not list"));
    }
    for (ArchiveEntry& entry : entries_) {
      if (entry.alias_of.empty()) continue;
      const absl::StatusOr<const ArchiveEntry*> tied = Find(entry.alias_of);
      if (!tied.ok() || (*tied)->shard != entry.shard) entry.alias_of.clear();
    }
    return absl::OkStatus();
  }

  absl::string_view format() const override { return parts_.format; }
  const std::string& path() const override { return parts_.path; }
  bool strides_only_permute() const override {
    return std::any_of(parts_.shards.begin(), parts_.shards.end(), [](const ShardedParts::Shard& shard) {
      return shard.reader != nullptr && shard.reader->strides_only_permute();
    });
  }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  const FileMetadata& file_metadata() const override { return parts_.metadata; }

  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const ArchiveReader* const reader, ReaderOf(name));
    return reader->ReadWithMetadata(name);
  }
  absl::StatusOr<DecodedTensor> ReadIgnoringBadMetadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const ArchiveReader* const reader, ReaderOf(name));
    return reader->ReadIgnoringBadMetadata(name);
  }
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const ArchiveReader* const reader, ReaderOf(name));
    return reader->Metadata(name);
  }
  absl::StatusOr<std::unique_ptr<TensorBlocks>> ReadBlocks(const ArchiveEntry& entry,
                                                           uint64_t block_bytes) const override {
    CASK_ASSIGN_OR_RETURN(const ArchiveReader* const reader, ReaderOf(entry.name));
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const own, reader->Find(entry.name));
    return reader->ReadBlocks(*own, block_bytes);
  }

  std::shared_ptr<const ByteSource> SourceOf(const ArchiveEntry& entry) const override {
    const absl::StatusOr<const ArchiveReader*> reader = ReaderOf(entry.name);
    if (!reader.ok()) return nullptr;
    const absl::StatusOr<const ArchiveEntry*> own = (*reader)->Find(entry.name);
    return own.ok() ? (*reader)->SourceOf(**own) : nullptr;
  }

  absl::StatusOr<TensorCounts> VerifyAll(absl::FunctionRef<void(const ArchiveDamage&)> report) const override {
    TensorCounts counts;
    for (size_t i = 0; i < parts_.shards.size(); ++i) {
      const ShardedParts::Shard& shard = parts_.shards[i];
      if (shard.reader == nullptr) {
        ++counts.damaged_elsewhere;
        report({"", shard.path, 0, shard.status});
        continue;
      }
      // A tensor that the index lists in another file is damage of this file, and counts as that of the other.
      absl::flat_hash_set<std::string> hidden = hidden_[i];
      int64_t num_hidden_damaged = 0;
      CASK_ASSIGN_OR_RETURN(TensorCounts part, shard.reader->VerifyAll([&](const ArchiveDamage& damage) {
        num_hidden_damaged += hidden.erase(damage.tensor) > 0 ? 1 : 0;
        report(damage);
      }));
      counts.whole += part.whole - std::min(part.whole, static_cast<int64_t>(hidden.size()));
      counts.damaged += part.damaged - std::min(part.damaged, num_hidden_damaged);
      counts.damaged_elsewhere += part.damaged_elsewhere + std::min(part.damaged, num_hidden_damaged);
      counts.not_readable += part.not_readable;
      counts.past_limit += part.past_limit;
      counts.not_checked += part.not_checked;
      for (std::string& note : part.notes) counts.notes.push_back(std::move(note));
      if (unlisted_[i].ok()) continue;
      ++counts.damaged_elsewhere;
      report({"", shard.path, 0, unlisted_[i]});
    }
    for (const ArchiveEntry& entry : entries_) {
      if (found_.contains(entry.name) || parts_.index.count(entry.name) == 0) continue;
      ++counts.damaged;
      const ShardedParts::Shard& shard = parts_.shards[static_cast<size_t>(*entry.shard)];
      if (shard.reader != nullptr) report({entry.name, shard.path, 0, CheckReadable(entry)});
    }
    return counts;
  }

  std::vector<std::string> files() const override {
    std::vector<std::string> files = {path()};
    for (const ShardedParts::Shard& shard : parts_.shards) files.push_back(shard.path);
    return files;
  }
  int num_shards() const override { return static_cast<int>(parts_.shards.size()); }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = parts_.notes;
    for (size_t i = 0; i < parts_.shards.size(); ++i) {
      const ShardedParts::Shard& shard = parts_.shards[i];
      if (shard.reader == nullptr) {
        notes.emplace_back(shard.status.message());
        continue;
      }
      for (const std::string& note : shard.reader->notes()) notes.push_back(absl::StrCat(shard.name, ": ", note));
      if (!unlisted_[i].ok()) notes.emplace_back(unlisted_[i].message());
    }
    notes.insert(notes.end(), left_out_.begin(), left_out_.end());
    return notes;
  }
  std::vector<std::string> NotWritten() const override {
    std::vector<std::string> all;
    for (const ShardedParts::Shard& shard : parts_.shards) {
      if (shard.reader == nullptr) continue;
      for (std::string& what : shard.reader->NotWritten()) {
        if (std::find(all.begin(), all.end(), what) == all.end()) all.push_back(std::move(what));
      }
    }
    return all;
  }

 private:
  int NumberOf(const std::string& shard) const {
    const auto found =
        std::lower_bound(parts_.shards.begin(), parts_.shards.end(), shard,
                         [](const ShardedParts::Shard& one, const std::string& name) { return one.name < name; });
    return static_cast<int>(found - parts_.shards.begin());
  }

  absl::Status ListShard(int number, ListingBudget* budget) {
    const ShardedParts::Shard& shard = parts_.shards[static_cast<size_t>(number)];
    absl::Status& unlisted = unlisted_.emplace_back();
    hidden_.emplace_back();
    if (shard.reader == nullptr) return absl::OkStatus();
    CASK_RETURN_IF_ERROR(NoteValues(shard));
    int64_t num_unlisted = 0;
    for (const ArchiveEntry& own : shard.reader->entries()) {
      const auto listed = parts_.index.find(own.name);
      const bool is_listed_here = listed != parts_.index.end() && listed->second == shard.name;
      if (!is_listed_here && num_unlisted++ == 0) {
        unlisted = absl::DataLossError(absl::StrCat(shard.path, ": has the tensor ", Quoted(own.name), ", which ",
                                                    path(), " does not list there"));
      }
      if (is_listed_here) found_.insert(own.name);
      if (!is_listed_here && listed != parts_.index.end()) {  // that of the other file counts
        if (!absl::IsUnimplemented(own.read_status)) hidden_.back().insert(own.name);
        continue;
      }
      ArchiveEntry entry = own;
      entry.shard = number;
      CASK_RETURN_IF_ERROR(Keep(std::move(entry), budget));
    }
    if (num_unlisted > 1) {
      unlisted = AppendToMessage(
          unlisted, absl::StrCat(", nor ", num_unlisted - 1, num_unlisted == 2 ? " other tensor" : " other tensors"));
    }
    return absl::OkStatus();
  }

  // A model has no place for what a file has beside its tensors.
  absl::Status NoteValues(const ShardedParts::Shard& shard) {
    constexpr uint64_t kMaxValues = uint64_t{1} << 22;
    CASK_ASSIGN_OR_RETURN(const ValueTree tree, shard.reader->Values());
    if (tree.empty()) return absl::OkStatus();
    uint64_t count = 0;
    std::string first;
    const bool is_all = ForEachInMaps(tree.root(), kMaxValues, [&](absl::Span<const PathStep> path, Value value) {
      if (value.kind() != ValueKind::kTensor && count++ == 0) first = JoinedName(path);
    });
    if (is_all && count == 0) return absl::OkStatus();
    const std::string which =
        is_all ? absl::StrCat(" (", count, "): ", Quoted(first), count > 1 ? ", ..." : "") : std::string();
    left_out_.push_back(absl::StrCat(shard.path, ": values beside the tensors are left out", which));
    return absl::OkStatus();
  }

  absl::Status Keep(ArchiveEntry entry, ListingBudget* budget) {
    CASK_RETURN_IF_ERROR(Annotate(budget->Charge(EntryMemory(entry)), path()));
    entries_.push_back(std::move(entry));
    return absl::OkStatus();
  }

  absl::StatusOr<Target> TargetOf(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const ArchiveReader* const reader, ReaderOf(name));
    return Target{reader, name};
  }
  absl::StatusOr<const ArchiveReader*> ReaderOf(absl::string_view name) const {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
    CASK_RETURN_IF_ERROR(CheckReadable(*entry));
    return parts_.shards[static_cast<size_t>(*entry->shard)].reader.get();
  }

  const ShardedParts parts_;
  std::vector<ArchiveEntry> entries_;
  absl::flat_hash_set<std::string> found_;                // where the index lists them
  std::vector<absl::flat_hash_set<std::string>> hidden_;  // for each shard: tensors that the index lists in another one
  std::vector<std::string> left_out_;                     // notes on values
  std::vector<absl::Status> unlisted_;  // for each shard: not OK if it has tensors that the index does not list there
};

}  // namespace

absl::StatusOr<std::unique_ptr<ArchiveReader>> MakeShardedReader(ShardedParts parts, ListingBudget* budget) {
  auto reader = std::make_unique<ShardedReader>(std::move(parts));
  CASK_RETURN_IF_ERROR(reader->List(budget));
  return std::unique_ptr<ArchiveReader>(std::move(reader));
}

}  // namespace tensorcask::archive
