#include "tensorcask/serialize/torch/internal/torch_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/torch/internal/torch_records.h"
#include "tensorcask/serialize/zip/zip_directory.h"
#include "tensorcask/serialize/zip/zip_member_stream.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::torch {
namespace {

constexpr size_t kMaxNotes = 100;

absl::Status Bad(absl::string_view what) { return absl::DataLossError(what); }

// A pickle and its objects may take as much for each of its bytes as a list of tensors may.
DecodeQuota QuotaOf(uint64_t pickle_bytes, const DecodeLimits& limits) {
  return DecodeQuota::ForUnbacked(limits, ListingBudget::kBytesPerIndexByte * pickle_bytes);
}

Record InLine(const Storage& storage) {
  Record record;
  record.in_line = true;
  record.bytes = storage.bytes;
  record.size_bytes = storage.bytes.size();
  return record;
}

// ---- The zip archive ------------------------------------------------------------------------------------------------

class ArchiveOpener {
 public:
  ArchiveOpener(const TorchFileOptions& options, ListingBudget* budget, TorchFile* file)
      : options_(options), budget_(budget), file_(file) {}

  absl::Status Open() {
    CASK_ASSIGN_OR_RETURN(file_->members, ReadZipDirectory(*file_->source, options_.limits));
    CASK_RETURN_IF_ERROR(ListMembers());
    CASK_RETURN_IF_ERROR(CheckVersion());
    CASK_RETURN_IF_ERROR(ReadByteOrder());
    file_->is_torchscript = Find("constants.pkl") != nullptr;
    CASK_RETURN_IF_ERROR(AddPart("", kPickleRecord, "data"));
    if (file_->is_torchscript) CASK_RETURN_IF_ERROR(AddPart("constants", "constants.pkl", "constants"));
    return ReadMetadata();
  }

 private:
  // All members are in one folder, whose name PyTorch takes from the first.
  absl::Status ListMembers() {
    const std::vector<ZipMember>& members = file_->members;
    const size_t slash = members.empty() ? std::string::npos : members[0].name.find('/');
    if (slash == std::string::npos) {
      return Bad("a zip archive whose members are not in a folder; torch.save puts them in one");
    }
    file_->folder = members[0].name.substr(0, slash + 1);
    size_t outside = 0;
    size_t name_bytes = 0;
    uint64_t directory_bytes = 0;
    for (const ZipMember& member : members) name_bytes += member.name.size();
    lower_names_.reserve(name_bytes);
    by_name_.reserve(members.size());
    for (const ZipMember& member : members) {
      constexpr uint64_t kHeaderBytes = 30 + 46;
      directory_bytes += kHeaderBytes + 2 * member.name.size();
      has_checksums_ = has_checksums_ || member.crc32 != 0;
      if (!absl::StartsWith(member.name, file_->folder)) {
        ++outside;
        continue;
      }
      const absl::string_view name = absl::string_view(member.name).substr(file_->folder.size());
      const size_t start = lower_names_.size();
      for (const char c : name) lower_names_.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
      if (!by_name_.emplace(absl::string_view(lower_names_).substr(start), &member).second) {
        return Bad(absl::StrCat("two members whose names differ only in case: ", Quoted(member.name)));
      }
    }
    budget_->AddIndex(directory_bytes);
    if (outside > 0) {
      file_->notes.push_back(absl::StrCat(outside, outside == 1 ? " member is" : " members are",
                                          " outside of the folder ", Quoted(file_->folder), " and not read"));
    }
    return absl::OkStatus();
  }

  const ZipMember* Find(absl::string_view name) const {
    const auto found = by_name_.find(absl::AsciiStrToLower(name));
    const bool is_it =
        found != by_name_.end() && absl::string_view(found->second->name).substr(file_->folder.size()) == name;
    return is_it ? found->second : nullptr;
  }

  absl::StatusOr<std::string> ReadMember(const ZipMember& member) {
    const absl::Status status = [&]() -> absl::Status {
      if (member.size_bytes > LimitOf(options_.limits.max_message_bytes)) {
        return PastLimit(absl::StrCat("has ", member.size_bytes, " bytes"), "max_message_bytes",
                         options_.limits.max_message_bytes);
      }
      budget_->AddIndex(member.stored_bytes);
      return member.deflated ? budget_->Charge(member.size_bytes) : absl::OkStatus();
    }();
    if (!status.ok()) return Annotate(status, absl::StrCat("member ", Quoted(member.name)));
    std::string bytes(static_cast<size_t>(member.size_bytes), '\0');
    ZipMemberStream stream(file_->source.get(), &member, has_checksums_);
    absl::Status read = stream.Read(absl::MakeSpan(bytes.data(), bytes.size()));
    if (read.ok()) read = stream.Finish();
    if (!read.ok()) return Annotate(read, absl::StrCat("member ", Quoted(member.name)));
    return bytes;
  }

  // A small text; "" if there is no such member.
  absl::StatusOr<std::string> ReadText(absl::string_view name) {
    constexpr uint64_t kMostBytes = 64;
    const ZipMember* const member = Find(name);
    if (member == nullptr) return "";
    if (member->size_bytes > kMostBytes) {
      return Bad(absl::StrCat("member ", Quoted(member->name), " has ", member->size_bytes, " bytes; wanted a word"));
    }
    return ReadMember(*member);
  }

  absl::Status CheckVersion() {
    constexpr int kOldest = 1;
    constexpr int kNewest = 10;
    CASK_ASSIGN_OR_RETURN(std::string text, ReadText(Find("version") != nullptr ? "version" : ".data/version"));
    int version = 0;
    if (text.empty()) return Bad("no record \"version\": a zip archive that torch.save did not write");
    if (!absl::SimpleAtoi(text, &version) || version < kOldest || version > kNewest) {
      return Bad(absl::StrCat("the record \"version\" is ", Quoted(absl::StripAsciiWhitespace(text)), "; ", kOldest,
                              " to ", kNewest, " are read"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadByteOrder() {
    if (Find("byteorder") == nullptr) return absl::OkStatus();
    CASK_ASSIGN_OR_RETURN(const std::string text, ReadText("byteorder"));
    if (text != "little" && text != "big") {
      return Bad(absl::StrCat("the record \"byteorder\" is ", Quoted(text), "; wanted \"little\" or \"big\""));
    }
    file_->big_endian = text == "big";
    return absl::OkStatus();
  }

  absl::Status AddPart(absl::string_view name, absl::string_view pickle_name, absl::string_view folder) {
    const ZipMember* const member = Find(pickle_name);
    if (member == nullptr) {
      return Bad(absl::StrCat("no record ", Quoted(pickle_name), ": a zip archive that torch.save did not write"));
    }
    Part part;
    part.name = name;
    CASK_ASSIGN_OR_RETURN(std::string bytes, ReadMember(*member));
    part.bytes = std::make_unique<const std::string>(std::move(bytes));
    CASK_ASSIGN_OR_RETURN(part.pickle, PickleOf(pickle_name, *part.bytes));
    part.records.reserve(part.pickle.storages.size());
    for (const Storage& storage : part.pickle.storages) {
      CASK_ASSIGN_OR_RETURN(Record record, FindRecord(part.pickle, storage, folder));
      part.records.push_back(std::move(record));
    }
    file_->parts.push_back(std::move(part));
    return absl::OkStatus();
  }

  // All of `bytes`, which outlive the pickle.
  absl::StatusOr<Pickle> PickleOf(absl::string_view record, const std::string& bytes) const {
    DecodeQuota quota = QuotaOf(bytes.size(), options_.limits);
    absl::StatusOr<Pickle> pickle = ReadPickle(bytes, {options_.opaque_objects, file_->is_torchscript}, &quota);
    if (absl::IsOutOfRange(pickle.status())) pickle = Bad(pickle.status().message());
    if (pickle.ok() && pickle->size_bytes != bytes.size()) {
      pickle = Bad(absl::StrCat(bytes.size() - pickle->size_bytes, " bytes behind the end of the pickle"));
    }
    if (!pickle.ok()) return Annotate(pickle.status(), absl::StrCat("record ", Quoted(record)));
    return pickle;
  }

  absl::Status ReadMetadata() {
    const ZipMember* const member = Find(kMetadataRecord);
    if (member == nullptr) return absl::OkStatus();
    CASK_ASSIGN_OR_RETURN(const std::string bytes, ReadMember(*member));
    CASK_ASSIGN_OR_RETURN(const Pickle pickle, PickleOf(kMetadataRecord, bytes));
    const auto is_text = [&](Ref ref) { return pickle.object(ref).kind == Object::Kind::kText; };
    const absl::Status refused = Bad(absl::StrCat("record ", Quoted(kMetadataRecord), " is not a dict of texts"));
    if (pickle.object(pickle.root).kind != Object::Kind::kDict) return refused;
    const absl::Span<const Ref> items = pickle.items(pickle.root);
    if (!std::all_of(items.begin(), items.end(), is_text)) return refused;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      file_->metadata.emplace(pickle.object(items[i]).text, pickle.object(items[i + 1]).text);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Record> FindRecord(const Pickle& pickle, const Storage& storage, absl::string_view folder) {
    if (storage.in_line) return InLine(storage);
    const std::string name = absl::StrCat(folder, "/", pickle.object(storage.key).text);
    const ZipMember* const member = Find(name);
    const uint64_t wanted = storage.num_elements * storage.element_bytes;
    Record record;
    if (member == nullptr && wanted == 0) return record;
    if (member == nullptr) return Bad(absl::StrCat("no record ", Quoted(name), ", which the pickle names"));
    if (member->size_bytes < wanted) {
      return Bad(absl::StrCat("record ", Quoted(name), " has ", member->size_bytes, " bytes; its storage of ",
                              storage.num_elements, " elements needs ", wanted));
    }
    if (member->size_bytes > wanted && file_->notes.size() < kMaxNotes) {
      file_->notes.push_back(absl::StrCat("record ", Quoted(name), " has ", member->size_bytes - wanted,
                                          " bytes that its storage does not need"));
    }
    record.member = static_cast<size_t>(member - file_->members.data());
    record.offset = member->data_offset;
    record.size_bytes = member->size_bytes;
    record.has_checksum = has_checksums_;
    if (has_checksums_ && member->crc32 == 0 && member->size_bytes > 0) {
      record.status = Bad(absl::StrCat("record ", Quoted(name), " has the checksum 0, where other records have one: ",
                                       "saved without its data (skip_data), or damaged"));
    }
    return record;
  }

  const TorchFileOptions& options_;
  ListingBudget* const budget_;
  TorchFile* const file_;
  bool has_checksums_ = false;                                        // not all of them are 0
  std::string lower_names_;                                           // the names of the members, without the folder
  absl::flat_hash_map<absl::string_view, const ZipMember*> by_name_;  // by their part of lower_names_
};

// ---- The stream -----------------------------------------------------------------------------------------------------

// Five pickles, then for each key of the last one a number of elements (8 bytes) and the elements.
class StreamOpener {
 public:
  StreamOpener(const TorchFileOptions& options, ListingBudget* budget, TorchFile* file)
      : options_(options), budget_(budget), file_(file) {}

  absl::Status Open() {
    constexpr uint64_t kFirstBytes = uint64_t{1} << 20;
    constexpr uint64_t kGrowth = 4;
    const uint64_t size = file_->source->size_bytes();
    const uint64_t most = std::min(size, LimitOf(options_.limits.max_message_bytes));
    // Nothing says where the pickles end.
    for (uint64_t bytes = std::min(most, kFirstBytes);; bytes = std::min(most, kGrowth * bytes)) {
      absl::Status status = ReadPickles(bytes);
      if (!absl::IsOutOfRange(status)) {
        CASK_RETURN_IF_ERROR(status);
        break;
      }
      if (bytes == size) return Bad(absl::StrCat("the stream is cut short: ", status.message()));
      if (bytes == most) {
        return PastLimit("the pickles of the stream are longer", "max_message_bytes",
                         options_.limits.max_message_bytes);
      }
    }
    return FindRecords();
  }

 private:
  absl::Status ReadPickles(uint64_t num_bytes) {
    part_ = Part();
    at_ = 0;
    std::string bytes(static_cast<size_t>(num_bytes), '\0');
    CASK_RETURN_IF_ERROR(file_->source->ReadAt(0, absl::MakeSpan(bytes.data(), bytes.size())));
    part_.bytes = std::make_unique<const std::string>(std::move(bytes));
    CASK_ASSIGN_OR_RETURN(const Pickle magic, Next("magic number"));
    if (absl::string_view(*part_.bytes).substr(0, at_) != kStreamMagic) return Bad("not a stream of torch.save");
    CASK_ASSIGN_OR_RETURN(const Pickle protocol, Next("protocol"));
    constexpr int64_t kProtocol = 1001;
    if (protocol.object(protocol.root).kind != Object::Kind::kInt ||
        protocol.object(protocol.root).integer != kProtocol) {
      return Bad(absl::StrCat("a stream of another protocol than ", kProtocol));
    }
    CASK_ASSIGN_OR_RETURN(const Pickle system, Next("system"));
    if (system.object(system.root).kind != Object::Kind::kDict) return Bad("a stream whose third pickle is not a dict");
    CASK_ASSIGN_OR_RETURN(part_.pickle, Next("object"));
    CASK_ASSIGN_OR_RETURN(keys_, Next("storage keys"));
    if (keys_.object(keys_.root).kind != Object::Kind::kList) return Bad("a stream whose last pickle is not a list");
    return absl::OkStatus();
  }

  absl::StatusOr<Pickle> Next(absl::string_view what) {
    DecodeQuota quota = QuotaOf(part_.bytes->size(), options_.limits);
    absl::StatusOr<Pickle> pickle =
        ReadPickle(absl::string_view(*part_.bytes).substr(at_), {options_.opaque_objects, false}, &quota);
    if (!pickle.ok()) return Annotate(pickle.status(), absl::StrCat("pickle of the ", what));
    at_ += pickle->size_bytes;
    return pickle;
  }

  absl::Status FindRecords() {
    const Pickle& pickle = part_.pickle;
    budget_->AddIndex(at_);
    absl::flat_hash_map<absl::string_view, size_t> numbers;
    part_.records.resize(pickle.storages.size());
    std::vector<bool> found(pickle.storages.size());
    for (size_t i = 0; i < pickle.storages.size(); ++i) {
      const Storage& storage = pickle.storages[i];
      found[i] = storage.in_line;
      if (storage.in_line) {
        part_.records[i] = InLine(storage);
      } else {
        numbers.emplace(pickle.object(storage.key).text, i);
      }
    }
    const uint64_t size = file_->source->size_bytes();
    uint64_t at = at_;
    for (const Ref key : keys_.items(keys_.root)) {
      const absl::string_view name = keys_.object(key).text;
      const auto number = numbers.find(name);
      if (keys_.object(key).kind != Object::Kind::kText || number == numbers.end()) {
        return Bad(
            absl::StrCat("the stream has the bytes of storage ", Quoted(name), ", which its object does not name"));
      }
      if (found[number->second]) return Bad(absl::StrCat("the stream has storage ", Quoted(name), " twice"));
      found[number->second] = true;
      const Storage& storage = pickle.storages[number->second];
      char count_bytes[sizeof(int64_t)];
      if (!RangeFits(at, sizeof(count_bytes), size)) return CutShort(name);
      CASK_RETURN_IF_ERROR(file_->source->ReadAt(at, absl::MakeSpan(count_bytes)));
      const auto count = LoadLittleEndian<int64_t>(count_bytes);
      if (count < 0 || static_cast<uint64_t>(count) != storage.num_elements) {
        return Bad(absl::StrCat("storage ", Quoted(name), " has ", count, " elements in the stream; the object says ",
                                storage.num_elements));
      }
      at += sizeof(count_bytes);
      Record& record = part_.records[number->second];
      record.offset = at;
      record.size_bytes = storage.num_elements * storage.element_bytes;
      if (!RangeFits(at, record.size_bytes, size)) return CutShort(name);
      at += record.size_bytes;
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i] || pickle.storages[i].num_elements == 0) continue;
      return Bad(absl::StrCat("the object names storage ", Quoted(pickle.object(pickle.storages[i].key).text),
                              ", whose bytes the stream does not have"));
    }
    if (at != size) {
      file_->notes.push_back(
          absl::StrCat(size - at, " bytes behind the last storage are not read; another save may follow"));
    }
    file_->parts.push_back(std::move(part_));
    return absl::OkStatus();
  }

  static absl::Status CutShort(absl::string_view key) {
    return Bad(absl::StrCat("the stream is cut short in storage ", Quoted(key)));
  }

  const TorchFileOptions& options_;
  ListingBudget* const budget_;
  TorchFile* const file_;
  Part part_;
  Pickle keys_;
  size_t at_ = 0;
};

// What a file is that begins neither as an archive nor as a stream.
absl::Status NotTorch(absl::string_view head) {
  if (absl::StartsWith(head, "PYTORCH1")) return Bad("a file of PyTorch before version 0.1; no program reads them now");
  if (head.size() > 262 && head.substr(257, 5) == "ustar") {
    return Bad("a tar archive, as PyTorch 0.1 wrote them; load and save it with PyTorch 1.x to read it");
  }
  if (!head.empty() && static_cast<unsigned char>(head[0]) == 0x80) {
    return Bad("a pickle that torch.save did not write; it has no tensors in files");
  }
  return Bad("neither a zip archive nor a stream of torch.save");
}

absl::Status OpenContainer(const TorchFileOptions& options, ListingBudget* budget, TorchFile* file) {
  constexpr size_t kHeadBytes = 512;
  std::string head(static_cast<size_t>(std::min<uint64_t>(file->source->size_bytes(), kHeadBytes)), '\0');
  CASK_RETURN_IF_ERROR(file->source->ReadAt(0, absl::MakeSpan(head.data(), head.size())));
  if (absl::StartsWith(head, kStreamMagic)) {
    file->is_stream = true;
    return StreamOpener(options, budget, file).Open();
  }
  if (IsZip(head)) return ArchiveOpener(options, budget, file).Open();
  return NotTorch(head);
}

}  // namespace

absl::StatusOr<TorchFile> OpenTorchFile(std::shared_ptr<const ByteSource> source, const TorchFileOptions& options,
                                        ListingBudget* budget) {
  TorchFile file;
  file.source = std::move(source);
  const absl::Status status = OpenContainer(options, budget, &file);
  if (status.ok()) return file;
  // Errors of the source and of the directory name the file already.
  if (absl::StartsWith(status.message(), absl::StrCat(file.source->name(), ": "))) return status;
  return Annotate(status, file.source->name());
}

}  // namespace tensorcask::torch
