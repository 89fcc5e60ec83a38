#include "tensorcask/serialize/safetensors/shard_files.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/safetensors/internal/file_plan.h"
#include "tensorcask/serialize/safetensors/model_index.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask::safetensors {
namespace {

constexpr absl::string_view kEnding = ".safetensors";

// An error says only what is wrong with the file.
absl::StatusOr<ModelIndex> ReadIndex(const std::string& path, const OpenOptions& open) {
  const absl::StatusOr<RefPtr<TensorBuffer>> buffer = ReadWholeFile(path, open.max_header_bytes, open.read);
  if (!buffer.ok()) return absl::UnavailableError("cannot be read");
  absl::StatusOr<ModelIndex> index = ParseModelIndex(
      absl::string_view(static_cast<const char*>((*buffer)->data()), (*buffer)->size_bytes()), open.parse);
  if (!index.ok()) return absl::DataLossError("is not an index of a model");
  return index;
}

}  // namespace

std::set<std::string> FilesOfModel(const std::string& index_path, FileSystem* files) {
  OpenOptions open;
  open.read.file_system = files;
  open.max_header_bytes = 100'000'000;
  const absl::StatusOr<ModelIndex> index = ReadIndex(index_path, open);
  std::set<std::string> names;
  if (!index.ok()) return names;
  for (const auto& [tensor, file] : index->files) names.insert(file);
  return names;
}

bool IsIndexName(absl::string_view name) {
  return absl::StrContains(name, ".safetensors.index.") && absl::EndsWith(name, ".json");
}

bool IsShardName(absl::string_view name) {
  constexpr size_t kNumberBytes = 6;  // "-00001"
  const size_t of = name.rfind("-of-");
  return of != absl::string_view::npos && of > kNumberBytes && IsShardSuffix(name.substr(of - kNumberBytes));
}

absl::StatusOr<std::string> NextRevision(const std::string& path, FileSystem* files) {
  constexpr int kMaxRevisions = 10000;
  absl::string_view stem = path;
  absl::ConsumeSuffix(&stem, kEnding);
  const size_t dash = stem.rfind("-r");
  int revision = 0;
  if (dash != absl::string_view::npos && absl::ascii_isdigit(stem[stem.size() - 1]) &&
      absl::SimpleAtoi(stem.substr(dash + 2), &revision) && revision >= 0) {
    stem = stem.substr(0, dash);
  } else {
    revision = 0;
  }
  for (int i = 0; i < kMaxRevisions && revision < INT32_MAX; ++i) {
    const std::string candidate = absl::StrCat(stem, "-r", ++revision, kEnding);
    const absl::StatusOr<FileInfo> found = DescribeFile(candidate, files, "look for an existing file");
    if (absl::IsNotFound(found.status())) return candidate;
    CASK_RETURN_IF_ERROR(found.status());
  }
  return absl::AlreadyExistsError(absl::StrCat(path, ": no name is free for its next revision"));
}

absl::StatusOr<std::vector<std::string>> FreeShardPaths(const std::string& path, size_t count, FileSystem* files) {
  constexpr int kMaxRevisions = 10000;
  for (int revision = 0; revision < kMaxRevisions; ++revision) {
    std::vector<std::string> paths;
    bool is_free = true;
    for (size_t i = 1; is_free && i <= count; ++i) {
      std::string candidate = ShardName(path, i, count);
      if (revision > 0) candidate = absl::StrCat(absl::StripSuffix(candidate, kEnding), "-r", revision, kEnding);
      const absl::Status free = CheckNewFile(candidate, files);
      is_free = !absl::IsAlreadyExists(free);
      if (is_free) CASK_RETURN_IF_ERROR(free);
      paths.push_back(std::move(candidate));
    }
    if (is_free) return paths;
  }
  return absl::AlreadyExistsError(absl::StrCat(path, ": no names are free for the files of the model"));
}

absl::Status CheckNoModel(const std::string& path, FileSystem* files) {
  for (const std::string& taken : {path, absl::StrCat(path, ".index.json")}) {
    const absl::Status there = DescribeFile(taken, files, "look at").status();
    if (there.ok()) return absl::AlreadyExistsError(absl::StrCat(taken, ": exists already"));
    if (!absl::IsNotFound(there)) return there;
  }
  return absl::OkStatus();
}

absl::StatusOr<ReplacedFiles> FindReplacedModel(const std::string& path, NewModel kind, FileSystem* files) {
  OpenOptions open;
  open.read.file_system = files;
  open.max_header_bytes = 100'000'000;
  const std::string index_path = absl::StrCat(path, kIndexEnding);
  CASK_ASSIGN_OR_RETURN(const bool has_file, HasFileAt(path, files));
  CASK_ASSIGN_OR_RETURN(const bool has_index, HasFileAt(index_path, files));
  ReplacedFiles replaced;
  const bool by_index = kind != NewModel::kOneFile;
  if (by_index ? has_index : has_file) replaced.path = by_index ? index_path : path;
  if (by_index && has_file) {
    if (kind == NewModel::kFiles) {
      replaced.removed.push_back(path);
    } else {
      replaced.beside.push_back(path);
      replaced.notes.push_back(
          absl::StrCat(path, " stays beside the index: programs that look for a single file first will read that"));
    }
  }
  if (!has_index) return replaced;
  const absl::StatusOr<ModelIndex> index = ReadIndex(index_path, open);
  if (!index.ok()) {
    if (by_index) {
      replaced.notes.push_back(absl::StrCat("the old ", LastName(index_path), " ", index.status().message(),
                                            ", so that no file is known to belong to it, and none is removed"));
    } else if (absl::EndsWith(path, kEnding)) {
      return absl::FailedPreconditionError(absl::StrCat(index_path, ": ", index.status().message(),
                                                        ", and would stand beside the new file; remove it first"));
    }
    return replaced;
  }
  if (!by_index) replaced.removed.push_back(index_path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : index->files) names.insert(file);
  const OtherIndexes others(index_path, open);
  for (const std::string& name : names) {
    const std::string file = absl::StrCat(FolderOf(path), "/", name);
    if (name == LastName(path)) continue;
    CASK_ASSIGN_OR_RETURN(const bool exists, HasFileAt(file, files));
    if (!exists) continue;
    const std::string reason =
        absl::EndsWith(name, kEnding) ? others.WhyNeeded(name) : "it is not called *.safetensors";
    if (reason.empty()) {
      replaced.removed.push_back(file);
    } else {
      replaced.notes.push_back(absl::StrCat(file, " stays: ", reason));
    }
  }
  return replaced;
}

OtherIndexes::OtherIndexes(const std::string& index_path, const OpenOptions& open) {
  const std::string folder = FolderOf(index_path);
  const absl::StatusOr<std::vector<std::string>> names = ListFolder(folder, open.read.file_system);
  if (!names.ok()) {
    unknown_ = "its folder cannot be listed";
    return;
  }
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, ".json") || name == LastName(index_path)) continue;
    const absl::StatusOr<ModelIndex> index = ReadIndex(absl::StrCat(folder, "/", name), open);
    if (!index.ok()) {
      const bool should_be_index = IsIndexName(name) || absl::EndsWith(name, ".index.json");
      if (should_be_index && unknown_.empty()) unknown_ = absl::StrCat(Quoted(name), " ", index.status().message());
      continue;
    }
    for (const auto& [tensor, file] : index->files) index_of_.emplace(file, name);
  }
}

std::string OtherIndexes::WhyNeeded(absl::string_view name) const {
  const auto found = index_of_.find(name);
  return found == index_of_.end() ? unknown_ : absl::StrCat(Quoted(found->second), " lists it");
}

}  // namespace tensorcask::safetensors
