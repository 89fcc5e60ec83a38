#include "tensorcask/serialize/archive/salvage_archive.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return a == b || std::filesystem::equivalent(a, b, ignored);
}

// Finds what is lost: tensors that are only listed, those that VerifyAll reports, and other names of these.
absl::Status FindLost(const ArchiveReader& source, std::set<std::string>* names, std::vector<ArchiveDamage>* lost) {
  const auto lose = [&](ArchiveDamage damage) {
    if (damage.tensor.empty() || names->insert(damage.tensor).second) lost->push_back(std::move(damage));
  };
  for (const ArchiveEntry& entry : source.entries()) {
    if (absl::Status status = source.CheckReadable(entry); !status.ok()) {
      lose({entry.name, source.path(), entry.offset.value_or(0), std::move(status)});
    }
  }
  CASK_RETURN_IF_ERROR(source.VerifyAll([&](const ArchiveDamage& damage) { lose(damage); }).status());
  for (const ArchiveEntry& entry : source.entries()) {
    if (names->count(entry.alias_of) == 0) continue;
    lose({entry.name, source.path(), entry.offset.value_or(0),
          absl::DataLossError(absl::StrCat(source.path(), ": tensor ", Quoted(entry.name), " is another name of ",
                                           Quoted(entry.alias_of), ", which is lost"))});
  }
  return absl::OkStatus();
}

absl::StatusOr<ArchiveSalvage> CopyWhole(const ArchiveReader& source, const std::string& to,
                                         const ArchiveFormat& format, const ArchiveWriterOptions& options,
                                         const std::function<bool()>& keep_going) {
  if (IsSameFile(source.path(), to)) {
    return absl::InvalidArgumentError(
        absl::StrCat(to, ": is what is to be salvaged; what cannot be read now would be gone for good"));
  }
  ArchiveSalvage result;
  std::set<std::string> lost;
  CASK_RETURN_IF_ERROR(FindLost(source, &lost, &result.lost));
  ConvertOptions convert;
  convert.allow_loss = true;
  if (keep_going != nullptr) convert.progress = [&](int64_t, uint64_t) { return keep_going(); };
  CASK_ASSIGN_OR_RETURN(ConversionPlan plan, PlanConversion({&source}, format, convert, {to, options.file_system}));
  const auto is_lost = [&](const ConversionItem& item) { return lost.count(item.from->name) != 0; };
  plan.items.erase(std::remove_if(plan.items.begin(), plan.items.end(), is_lost), plan.items.end());
  for (const ConvertLoss& loss : plan.losses) {  // what the other format cannot hold
    if (lost.count(loss.tensor) != 0) continue;
    result.lost.push_back({loss.tensor, source.path(), 0, absl::InvalidArgumentError(loss.message)});
  }
  if (plan.items.empty() && !result.lost.empty()) return result;
  ArchiveWriterOptions write = options;
  write.file_metadata = plan.file_metadata;
  write.values = plan.values;
  write.num_shards = plan.num_shards;
  write.store_opaquely = plan.store_opaquely;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveWriter> writer, format.Create(to, write));
  CASK_ASSIGN_OR_RETURN(ConvertReport report, RunConversion(plan, convert, writer.get()));
  result.saved = report.tensors;
  result.removed = std::move(report.removed);
  result.notes = std::move(report.notes);
  return result;
}

}  // namespace

absl::StatusOr<ArchiveSalvage> SalvageArchive(const std::string& path, const std::string& to,
                                              const ArchiveFormat& format, ArchiveFormats formats,
                                              const ArchiveReaderOptions& read, const ArchiveWriterOptions& write,
                                              const std::function<bool()>& keep_going) {
  std::string source = path;
  if (const absl::StatusOr<std::vector<std::string>> found = FindArchives(path, formats, read.read.file_system);
      found.ok() && found->size() == 1) {
    source = found->front();
  }
  absl::StatusOr<std::unique_ptr<ArchiveReader>> opened = OpenArchive(source, formats, read);
  if (absl::IsDataLoss(opened.status()) && !IsResourceFailure(opened.status())) {
    absl::StatusOr<std::unique_ptr<ArchiveReader>> recovered = OpenDamagedArchive(source, formats, read);
    if (recovered.ok()) opened = std::move(recovered);
  }
  if (!opened.ok() || (*opened)->format() == format.name()) {
    absl::StatusOr<ArchiveSalvage> salvaged = format.Salvage(source, to, read, write, keep_going);
    const bool has_none = absl::IsNotFound(salvaged.status());
    if (!has_none) return salvaged;
  }
  CASK_RETURN_IF_ERROR(opened.status());
  return CopyWhole(**opened, to, format, write, keep_going);
}

}  // namespace tensorcask
