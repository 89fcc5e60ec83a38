#include "tensorcask/serialize/archive/archive_format.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tensorcask {

std::shared_ptr<ListingBudget> ArchiveReaderOptions::listing_or_new() const {
  return listing != nullptr ? listing : std::make_shared<ListingBudget>(limits);
}

std::string ArchiveFormat::name_with_article() const {
  const bool begins_with_a_vowel = absl::StartsWith(name(), "np") || absl::StartsWith(name(), "o");  // as it is spoken
  return absl::StrCat(begins_with_a_vowel ? "an " : "a ", name());
}

bool ArchiveFormat::StoresAsRawBytes(DType /*dtype*/) const { return false; }

bool ArchiveFormat::HoldsMetadata(const TensorMetadata& metadata) const {
  return traits().metadata || metadata.IsDefault();
}

absl::StatusOr<std::vector<MetadataNotHeld>> ArchiveFormat::CheckMetadata(const MetadataForFile& /*metadata*/) const {
  return std::vector<MetadataNotHeld>();
}

bool ArchiveFormat::HoldsValue(absl::string_view /*name*/, Value /*value*/) const { return false; }

bool ArchiveFormat::HoldsEncoding(absl::string_view /*encoding*/) const { return false; }

absl::Status ArchiveFormat::CheckEntry(const ArchiveEntry& /*entry*/) const { return absl::OkStatus(); }

absl::Status ArchiveFormat::CheckStrings(const TensorView& /*strings*/) const { return absl::OkStatus(); }

absl::Status ArchiveFormat::CheckValue(Value /*value*/) const { return absl::OkStatus(); }

std::vector<std::string> ArchiveFormat::FindIn(const std::string& folder, absl::Span<const std::string> names,
                                               FileSystem* /*file_system*/) const {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    for (const absl::string_view extension : extensions()) {
      if (absl::EndsWithIgnoreCase(name, extension)) {
        found.push_back(absl::StrCat(folder, "/", name));
        break;
      }
    }
  }
  return found;
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> ArchiveFormat::OpenDamaged(const std::string& path,
                                                                          const ArchiveReaderOptions& options) const {
  return Open(path, options);
}

absl::StatusOr<std::unique_ptr<ArchiveWriter>> ArchiveFormat::Create(const std::string& path,
                                                                     const ArchiveWriterOptions& /*options*/) const {
  return absl::UnimplementedError(absl::StrCat(path, ": format ", name(), " can be read, not written"));
}

absl::StatusOr<FileEditResult> ArchiveFormat::Edit(const std::string& path, const FileEdits& /*edits*/,
                                                   const FileEditOptions& /*options*/) const {
  return absl::UnimplementedError(
      absl::StrCat(path, ": a file of format ", name(), " is not edited; convert it to a file with other names"));
}

absl::StatusOr<ArchiveSalvage> ArchiveFormat::Salvage(const std::string& path, const std::string& /*to*/,
                                                      const ArchiveReaderOptions& /*read*/,
                                                      const ArchiveWriterOptions& /*write*/,
                                                      const std::function<bool()>& /*keep_going*/) const {
  return absl::NotFoundError(absl::StrCat(path, ": format ", name(), " has no salvage of its own"));
}

bool archive::IsFrameworkNote(absl::string_view key, absl::string_view value) {
  constexpr absl::string_view kFrameworks[] = {"flax", "jax", "mlx", "np", "numpy", "paddle", "pt", "tf"};
  return key == "format" && std::find(std::begin(kFrameworks), std::end(kFrameworks), value) != std::end(kFrameworks);
}

std::vector<MetadataNotHeld> archive::MetadataRefusedBy(
    const MetadataForFile& metadata, absl::FunctionRef<absl::Status(const std::string&, const std::string&)> check) {
  std::vector<MetadataNotHeld> refused;
  for (const FileMetadata* const entries : {&metadata.of_sources, &metadata.set}) {
    for (const auto& [key, value] : *entries) {
      absl::Status held = check(key, value);
      if (!held.ok()) refused.push_back({key, std::move(held)});
    }
  }
  return refused;
}

}  // namespace tensorcask
