#include "tensorcask/serialize/archive/edit.h"

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/internal/metadata_keys.h"
#include "tensorcask/serialize/archive/internal/planned_values.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

// The new names, and which tensors are removed. Errors: AlreadyExists.
absl::Status PlanNames(const ArchiveReader& archive, const ArchiveEdits& edits, FileEdits* plan,
                       ArchiveEditReport* report) {
  absl::flat_hash_map<absl::string_view, absl::string_view> names;  // from new to old
  for (const ArchiveEntry& entry : archive.entries()) {
    if (edits.remove != nullptr && edits.remove(entry.name)) {
      plan->removed.insert(entry.name);
      report->removed.push_back(entry.name);
      continue;
    }
    absl::string_view name = entry.name;
    if (edits.rename != nullptr) {
      CASK_ASSIGN_OR_RETURN(std::string new_name, edits.rename(entry.name));
      if (new_name != name) name = plan->renames.emplace(entry.name, std::move(new_name)).first->second;
    }
    const auto [taken, is_new] = names.emplace(name, entry.name);
    if (!is_new) {
      return absl::AlreadyExistsError(absl::StrCat(archive.path(), ": both ", Quoted(taken->second), " and ",
                                                   Quoted(entry.name), " would be called ", Quoted(name)));
    }
  }
  return absl::OkStatus();
}

absl::Status PlanMetadata(const ArchiveReader& archive, const ArchiveEdits& edits, const ArchiveFormat& format,
                          FileEdits* plan) {
  if (edits.set_metadata.empty() && edits.unset_metadata.empty()) return absl::OkStatus();
  if (!format.traits().file_metadata) {
    return absl::InvalidArgumentError(
        absl::StrCat(archive.path(), ": a file of format ", format.name(), " holds no metadata"));
  }
  const FileMetadata& metadata = archive.file_metadata();
  for (const auto& [key, value] : edits.set_metadata) {
    const auto old = metadata.find(key);
    if (edits.unset_metadata.count(key) != 0) {
      return archive::SetAndUnset(key);
    }
    if (old == metadata.end() || old->second != value) plan->set_metadata[key] = value;
  }
  std::set<std::string> names;
  if (!edits.unset_metadata.empty()) {
    CASK_ASSIGN_OR_RETURN(names, archive::ValueNames(archive));
  }
  for (const std::string& key : edits.unset_metadata) {
    const absl::StatusOr<const ArchiveEntry*> alias = archive.Find(key);  // which metadata notes
    const bool is_alias = alias.ok() && !(*alias)->alias_of.empty();
    if (names.count(key) == 0 && !is_alias) {
      return archive::NoSuchMetadata(archive.path(), key, {names.begin(), names.end()});
    }
    plan->unset_metadata.insert(key);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ArchiveEditReport> EditArchive(const std::string& path, const ArchiveEdits& edits,
                                              ArchiveFormats formats, const FileEditOptions& options) {
  ArchiveReaderOptions read;
  read.read.file_system = options.file_system;
  read.limits = options.limits;
  read.lenient = options.lenient;
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveReader> archive, OpenArchive(path, formats, read));
  CASK_ASSIGN_OR_RETURN(const ArchiveFormat* const format, FindFormat(archive->format(), formats));
  ArchiveEditReport report;
  report.path = archive->path();
  report.format = std::string(format->name());
  FileEdits plan;
  CASK_RETURN_IF_ERROR(PlanNames(*archive, edits, &plan, &report));
  CASK_RETURN_IF_ERROR(PlanMetadata(*archive, edits, *format, &plan));
  if (plan.empty()) return report;
  archive.reset();
  CASK_ASSIGN_OR_RETURN(report.result, format->Edit(report.path, plan, options));
  for (auto& [from, to] : plan.renames) report.renamed.emplace_back(from, std::move(to));
  if (options.dry_run && !options.output.empty()) {
    for (const std::string& file : report.result.files) {
      if (IsThere(file, options.file_system)) return absl::AlreadyExistsError(absl::StrCat(file, ": exists already"));
    }
  }
  return report;
}

}  // namespace tensorcask
