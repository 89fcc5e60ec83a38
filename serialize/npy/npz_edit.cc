#include "tensorcask/serialize/npy/npz_edit.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/serialize/zip/zip_directory.h"
#include "tensorcask/serialize/zip/zip_writer.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::npy {
namespace {

// From the name of a member to its new name.
absl::StatusOr<std::map<std::string, std::string>> NewMemberNames(const NpzReader& reader, const FileEdits& edits) {
  std::map<std::string, std::string> names;
  for (const auto& [from, to] : edits.renames) {
    CASK_ASSIGN_OR_RETURN(const NpyEntry entry, reader.Find(from));
    if (!entry.field().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(reader.path(), ": tensor ", Quoted(from), " is the field ", Quoted(entry.field()),
                       " of an array of structures (", Quoted(entry.member()),
                       "), and the header of that array names it; only whole arrays are renamed"));
    }
    names[entry.member()] = absl::StrCat(to, kNpzSuffix);
  }
  std::set<std::string> members;
  for (const NpyEntry& entry : reader.entries()) {
    const auto renamed = names.find(entry.member());
    if (edits.removed.count(entry.name) != 0) continue;
    members.insert(renamed == names.end() ? entry.member() : renamed->second);
  }
  for (const auto& [from, to] : edits.renames) {
    CASK_ANNOTATE_IF_ERROR(
        NpzWriter::CheckApart(
            to, [&](const std::string& other) { return members.count(absl::StrCat(other, kNpzSuffix)) != 0; }),
        absl::StrCat(reader.path(), ": tensor ", Quoted(from)));
  }
  return names;
}

// The names of the members whose arrays are removed.
absl::StatusOr<std::set<std::string>> RemovedMembers(const NpzReader& reader, const FileEdits& edits) {
  std::set<std::string> members;
  for (const std::string& name : edits.removed) {
    CASK_ASSIGN_OR_RETURN(const NpyEntry entry, reader.Find(name));
    members.insert(entry.member());
  }
  bool is_left = false;
  for (const NpyEntry& entry : reader.entries()) {
    if (members.count(entry.member()) == 0) {
      is_left = true;
    } else if (edits.removed.count(entry.name) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(reader.path(), ": tensor ", Quoted(entry.name),
                                                     " would stay, but it is a field of an array of "
                                                     "structures (",
                                                     Quoted(entry.member()),
                                                     "), whose fields are removed together or not at all"));
    }
  }
  if (is_left || edits.removed.empty()) return members;
  return absl::InvalidArgumentError(absl::StrCat(reader.path(), ": no array would be left; remove the file instead"));
}

// Programs tell an npz file by its first member (NpzArchiveFormat::Recognizes).
absl::Status CheckFirstMember(absl::string_view path, const std::vector<ZipMember>& members) {
  if (absl::EndsWith(members.front().name, kNpzSuffix)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": the file would begin with the member ",
                                                 Quoted(members.front().name),
                                                 ", which is not an array, and programs "
                                                 "would not recognize it as an npz file; convert it without them"));
}

absl::Status CopyMembers(const ByteSource& file, const std::vector<ZipMember>& members,
                         const std::map<std::string, std::string>& names, ByteSink* sink) {
  ZipWriter zip(sink);
  for (const ZipMember& member : members) {
    const auto renamed = names.find(member.name);
    const absl::Status copied = zip.CopyMember(file, member, renamed == names.end() ? member.name : renamed->second);
    if (absl::IsInvalidArgument(copied) || absl::IsAlreadyExists(copied)) return Annotate(copied, file.name());
    CASK_RETURN_IF_ERROR(copied);
  }
  return zip.Finish();
}

}  // namespace

absl::StatusOr<FileEditResult> EditNpz(const std::string& path, const FileEdits& edits,
                                       const FileEditOptions& options) {
  if (!edits.set_metadata.empty() || !edits.unset_metadata.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": an npz file holds no metadata"));
  }
  NpyReaderOptions read;
  read.read.file_system = options.file_system;
  read.limits = options.limits;
  read.allow_trailing_bytes = options.lenient;
  read.list_object_arrays = true;
  read.list_damaged_members = true;
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(path, read.read));
  CASK_ASSIGN_OR_RETURN(const NpzReader reader, NpzReader::Open(file, read));
  CASK_ASSIGN_OR_RETURN(std::vector<ZipMember> members, ReadZipDirectory(*file, options.limits));
  CASK_ASSIGN_OR_RETURN(const auto names, NewMemberNames(reader, edits));
  CASK_ASSIGN_OR_RETURN(const auto removed, RemovedMembers(reader, edits));
  std::sort(members.begin(), members.end(),
            [](const ZipMember& a, const ZipMember& b) { return a.header_offset < b.header_offset; });
  if (!removed.empty()) {
    const auto is_removed = [&](const ZipMember& member) { return removed.count(member.name) != 0; };
    members.erase(std::remove_if(members.begin(), members.end(), is_removed), members.end());
    CASK_RETURN_IF_ERROR(CheckFirstMember(path, members));
  }
  CountingSink planned;
  CASK_RETURN_IF_ERROR(CopyMembers(*file, members, names, &planned));
  FileEditResult result;
  result.notes = reader.notes();
  result.files.push_back(options.output.empty() ? path : options.output);
  for (const ZipMember& member : members) result.copied_bytes += member.stored_bytes;
  result.written_bytes = planned.position() - result.copied_bytes;
  PublishOptions publish_options;
  publish_options.file_system = options.file_system;
  publish_options.sync = options.sync;
  publish_options.overwrite = options.output.empty();
  Publication publish(publish_options);
  publish.KeepPermissionsOf(path);
  publish.ReplaceOnly(file);
  if (options.dry_run) return result;
  CASK_ASSIGN_OR_RETURN(FileSink* const sink, publish.Add(result.files[0]));
  PacedSink paced(sink, &options.progress);
  CASK_RETURN_IF_ERROR(CopyMembers(*file, members, names, &paced));
  CASK_RETURN_IF_ERROR(publish.Commit());
  return result;
}

}  // namespace tensorcask::npy
