#include "tensorcask/serialize/npy/npz_reader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/serialize/npy/internal/array_data.h"
#include "tensorcask/serialize/npy/internal/npy_header.h"
#include "tensorcask/serialize/npy/internal/tensor_file.h"
#include "tensorcask/serialize/zip/zip_directory.h"
#include "tensorcask/serialize/zip/zip_format.h"
#include "tensorcask/serialize/zip/zip_member.h"
#include "tensorcask/serialize/zip/zip_member_stream.h"
#include "tensorcask/serialize/zip/zip_walk.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

constexpr uint64_t kUsualHeaderBytes = 256;    // for the header of an array; those of NumPy have 128
constexpr uint64_t kZipHeaderBytes = 30 + 46;  // for a member: before its data and in the directory, without its name

// What lies after the first `skipped` bytes of a member.
class ZipCursor final : public npy::DataCursor {
 public:
  // `verified` is set when the checksum was compared; null: it is not computed.
  // `announced` lives as long as the cursor (ByteSource::Announce).
  ZipCursor(const ByteSource* file, const ZipMember* member, uint64_t skipped, std::atomic<bool>* verified,
            std::shared_ptr<Announcement> announced)
      : announced_(std::move(announced)),
        stream_(file, member, verified != nullptr),
        skipped_(skipped),
        verified_(verified) {}

  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) override {
    CASK_RETURN_IF_ERROR(stream_.Skip(skipped_ + offset - stream_.position()));
    return stream_.Read(out);
  }
  absl::Status Finish() override {
    if (verified_ == nullptr) return absl::OkStatus();
    CASK_RETURN_IF_ERROR(stream_.Finish());
    verified_->store(true, std::memory_order_relaxed);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<Announcement> announced_;
  ZipMemberStream stream_;
  uint64_t skipped_;
  std::atomic<bool>* verified_;
};

// The data of a member, after the header of the array.
class ZipData final : public npy::ArrayData {
 public:
  ZipData(const ByteSource* file, ZipMember member, uint64_t header_bytes, bool verify)
      : file_(file), member_(std::move(member)), header_bytes_(header_bytes), verify_(verify) {}

  absl::StatusOr<std::unique_ptr<npy::DataCursor>> Open(Use use) const override {
    bool verify = use == Use::kVerify || verify_;
    if (!member_.deflated && use != Use::kVerify) verify = verify && use == Use::kWhole && is_unverified();
    if (!member_.deflated && !verify) {
      return std::unique_ptr<npy::DataCursor>(
          std::make_unique<npy::StoredCursor>(file_, member_.data_offset + header_bytes_));
    }
    // It is read from front to back in small steps.
    std::shared_ptr<Announcement> announced;
    const FileRange whole = place();
    if (use != Use::kPart) announced = file_->Announce(absl::MakeConstSpan(&whole, 1));
    return std::unique_ptr<npy::DataCursor>(std::make_unique<ZipCursor>(
        file_, &member_, header_bytes_, verify ? &verified_ : nullptr, std::move(announced)));
  }
  std::optional<uint64_t> stored_at() const override {
    if (member_.deflated) return std::nullopt;
    return member_.data_offset + header_bytes_;
  }
  uint64_t stored_bytes() const override { return member_.stored_bytes; }
  FileRange place() const override { return {member_.data_offset, member_.stored_bytes}; }
  FileRange place_of_whole() const override {
    if (member_.deflated || (verify_ && is_unverified())) return place();
    return {member_.data_offset + header_bytes_, member_.stored_bytes - header_bytes_};
  }
  bool is_unverified() const override { return !verified_.load(std::memory_order_relaxed); }

 private:
  const ByteSource* file_;
  const ZipMember member_;
  const uint64_t header_bytes_;
  const bool verify_;
  mutable std::atomic<bool> verified_{false};
};

// True for a small member that is as it was written. For members without the start of an array.
bool IsWhole(const ByteSource& file, const ZipMember& member) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;
  return member.size_bytes <= kMostBytes && ZipMemberStream(&file, &member, /*verify=*/true).Finish().ok();
}

struct MemberHeader {
  bool is_array = false;      // false: the member does not begin as one
  npy::NpyHeader array;       // if it is one
  uint64_t header_bytes = 0;  // before its elements
};

absl::StatusOr<MemberHeader> ReadMemberHeader(const ByteSource& file, const ZipMember& member,
                                              const NpyReaderOptions& options) {
  MemberHeader header;
  ZipMemberStream stream(&file, &member, /*verify=*/false);
  std::string text(std::min<uint64_t>(member.size_bytes, npy::kMaxPrefixBytes), '\0');
  CASK_RETURN_IF_ERROR(stream.Read(absl::MakeSpan(&text[0], text.size())));
  header.is_array = absl::string_view(text).substr(0, npy::kMagic.size()) == npy::kMagic;
  if (!header.is_array) return header;
  CASK_ASSIGN_OR_RETURN(const npy::NpyPrefix prefix, npy::ParseNpyPrefix(text));
  header.header_bytes = prefix.prefix_bytes + prefix.text_bytes;
  if (header.header_bytes > member.size_bytes) {
    return absl::DataLossError(
        absl::StrCat("a header of ", prefix.text_bytes, " bytes, in a member of ", member.size_bytes));
  }
  if (prefix.text_bytes > options.max_header_bytes) {
    return PastLimit(absl::StrCat("the header has ", prefix.text_bytes, " bytes"), "max_header_bytes",
                     options.max_header_bytes);
  }
  // The start of the text may have been read with the prefix.
  text.erase(0, prefix.prefix_bytes);
  const size_t have = std::min<size_t>(text.size(), prefix.text_bytes);
  text.resize(prefix.text_bytes);
  CASK_RETURN_IF_ERROR(stream.Read(absl::MakeSpan(&text[0] + have, text.size() - have)));
  CASK_ASSIGN_OR_RETURN(header.array, npy::ParseNpyHeader(prefix, text));
  return header;
}

// Adds the tensors of one member, or the member to those that are not arrays.
absl::Status AddMember(ZipMember member, npy::TensorFile* file) {
  const NpyReaderOptions& options = file->options();
  CASK_ASSIGN_OR_RETURN(MemberHeader header, ReadMemberHeader(file->source(), member, options));
  const std::string name = member.name;
  const bool is_named_npy = absl::EndsWith(name, kNpzSuffix);
  if (!header.is_array && is_named_npy && !IsWhole(file->source(), member)) {
    return npy::ParseNpyPrefix("").status();
  }
  if (!header.is_array) {
    const uint64_t size_bytes = member.size_bytes;
    file->AddOther(name, std::make_unique<ZipData>(&file->source(), std::move(member), 0, options.verify_checksums),
                   size_bytes);
    return absl::OkStatus();
  }
  const uint64_t available = member.size_bytes - header.header_bytes;
  const uint64_t index_bytes = kZipHeaderBytes + 2 * name.size() + std::min(header.header_bytes, member.stored_bytes);
  return file->AddArray(
      is_named_npy ? absl::StripSuffix(name, kNpzSuffix) : absl::string_view(name), is_named_npy ? kNpzSuffix : "",
      std::move(header.array),
      std::make_unique<ZipData>(&file->source(), std::move(member), header.header_bytes, options.verify_checksums),
      available, index_bytes);
}

// `damage` of the directory, with what can be done if the file begins with a member.
absl::Status SuggestSalvage(const absl::Status& damage, const ByteSource& file) {
  std::array<char, 4> start;
  if (file.size_bytes() < start.size() || !file.ReadAt(0, absl::MakeSpan(start)).ok()) return damage;
  if (LoadLittleEndian<uint32_t>(start.data()) != zip::kLocalSignature) return damage;
  return AppendToMessage(damage, "; salvage saves the arrays that are whole");
}

// The members of an archive whose directory cannot be read, as `damage` says, and what is wrong with it.
struct Recovered {
  std::vector<ZipMember> members;
  std::vector<absl::Status> damages;
};

absl::StatusOr<Recovered> RecoverMembers(const ByteSource& file, const NpyReaderOptions& options,
                                         const absl::Status& damage) {
  const auto size_of_data = [&](const ZipMember& rest) -> absl::StatusOr<uint64_t> {
    CASK_ASSIGN_OR_RETURN(const MemberHeader header, ReadMemberHeader(file, rest, options));
    if (!header.is_array) return absl::DataLossError("it is not an array");
    if (header.array.has_objects) return absl::UnimplementedError("it has Python objects");
    return CheckedAdd(header.header_bytes, header.array.data_bytes).value_or(UINT64_MAX);
  };
  CASK_ASSIGN_OR_RETURN(ZipWalk walk, WalkZip(file, options.limits, size_of_data));
  if (walk.members.empty()) return damage;
  constexpr size_t kMaxDamages = 100;
  Recovered recovered;
  recovered.damages.push_back(AppendToMessage(
      damage, absl::StrCat("; members were found by their headers up to offset ", walk.end,
                           walk.reason.empty() ? ", where the directory begins" : absl::StrCat("; ", walk.reason))));
  absl::flat_hash_set<std::string> names;
  for (ZipMember& member : walk.members) {
    if (names.emplace(absl::StripSuffix(member.name, kNpzSuffix)).second) {
      recovered.members.push_back(std::move(member));
    } else if (recovered.damages.size() < kMaxDamages) {
      recovered.damages.push_back(
          absl::DataLossError(absl::StrCat(file.name(), ": member ", Quoted(member.name), " at offset ",
                                           member.header_offset, " gives its array the name of a member before it")));
    }
  }
  return recovered;
}

}  // namespace

absl::StatusOr<NpzReader> NpzReader::Open(const std::string& path, const NpyReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> source, OpenFileSource(path, options.read));
  return Open(std::move(source), options);
}

absl::StatusOr<NpzReader> NpzReader::Open(std::shared_ptr<const ByteSource> source, const NpyReaderOptions& options) {
  CASK_RETURN_IF_ERROR(npy::CheckReaderOptions(options));
  const bool list_damaged = options.list_damaged_members || options.recover_members;
  const std::shared_ptr<const ByteSource> kept = source;  // longer than what reads ahead
  ZipReadAhead ahead;
  ahead.data_bytes = kUsualHeaderBytes;
  absl::StatusOr<std::vector<ZipMember>> members = ReadZipDirectory(*source, options.limits, list_damaged, &ahead);
  std::vector<absl::Status> damages;
  if (!members.ok()) {
    const absl::Status explained = ExplainContent(members.status(), *source, "npz");
    const bool is_damaged =
        absl::IsDataLoss(explained) && explained == members.status() && !IsResourceFailure(explained);
    if (!is_damaged) return explained;
    if (!options.recover_members) return SuggestSalvage(explained, *source);
    CASK_ASSIGN_OR_RETURN(Recovered recovered, RecoverMembers(*source, options, explained));
    members = std::move(recovered.members);
    damages = std::move(recovered.damages);
  }
  auto file = std::make_unique<npy::TensorFile>(std::move(source), options);
  file->Reserve(members->size());
  for (absl::Status& damage : damages) file->AddDamage(std::move(damage));
  for (ZipMember& member : *members) {
    absl::Status status = member.status;
    if (status.ok() && member.is_folder()) continue;
    const std::string name = member.name;
    const size_t count = file->entries().size();
    if (status.ok()) status = AddMember(member, file.get());
    const bool is_about_member = !member.status.ok() || absl::IsDataLoss(status) || absl::IsUnimplemented(status) ||
                                 absl::IsInvalidArgument(status);
    if (list_damaged && is_about_member && !IsResourceFailure(status) && file->entries().size() == count) {
      const bool is_named_npy = absl::EndsWith(name, kNpzSuffix);
      const uint64_t stored_bytes = member.stored_bytes;
      std::unique_ptr<ZipData> data;  // set for a member of an unknown form: VerifyAll compares its checksum
      if (member.status.ok() && absl::IsUnimplemented(status)) {
        data = std::make_unique<ZipData>(&file->source(), std::move(member), 0, options.verify_checksums);
      }
      status = file->AddUnreadable(is_named_npy ? absl::StripSuffix(name, kNpzSuffix) : absl::string_view(name),
                                   is_named_npy ? kNpzSuffix : "", std::move(data), stored_bytes, status);
    }
    if (!status.ok()) {
      return AsDataLoss(Annotate(status, absl::StrCat("member ", Quoted(name))), file->source().name());
    }
  }
  if (file->entries().empty() && !members->empty()) {
    const absl::Status empty = absl::DataLossError(absl::StrCat(file->source().name(), ": no member is an array"));
    const absl::Status other = ExplainContent(empty, file->source(), "npz");
    if (other != empty) return other;
  }
  return NpzReader(std::move(file));
}

NpzReader::NpzReader(std::unique_ptr<const npy::TensorFile> file) : file_(std::move(file)) {}
NpzReader::NpzReader(NpzReader&&) noexcept = default;
NpzReader& NpzReader::operator=(NpzReader&&) noexcept = default;
NpzReader::~NpzReader() = default;

std::shared_ptr<const ByteSource> NpzReader::source() const { return file_->shared_source(); }
FileRange NpzReader::RangeOf(absl::string_view name) const { return file_->RangeOf(name); }
const std::string& NpzReader::path() const { return file_->source().name(); }
const std::vector<NpyEntry>& NpzReader::entries() const { return file_->entries(); }
const std::vector<std::string>& NpzReader::other_members() const { return file_->other_members(); }
const std::vector<std::string>& NpzReader::notes() const { return file_->notes(); }

absl::StatusOr<NpyEntry> NpzReader::Find(absl::string_view name) const { return file_->Find(name); }

absl::StatusOr<Tensor> NpzReader::Read(absl::string_view name) const { return file_->Read(name); }

absl::StatusOr<TensorView> NpzReader::ReadView(absl::string_view name) const { return file_->ReadView(name); }

absl::Status NpzReader::ReadInto(absl::string_view name, Tensor* out) const {
  TensorView view = *out;
  return file_->ReadInto(name, &view);
}

absl::Status NpzReader::ReadInto(absl::string_view name, TensorView* out) const { return file_->ReadInto(name, out); }

absl::StatusOr<Tensor> NpzReader::ReadSlice(absl::string_view name, const TensorSlice& slice, bool verify_whole) const {
  return file_->ReadSlice(name, slice, verify_whole);
}

absl::Status NpzReader::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out,
                                      bool verify_whole) const {
  return file_->ReadSliceInto(name, slice, out, verify_whole);
}

absl::StatusOr<std::vector<NpyTensor>> NpzReader::ReadAll(int num_threads,
                                                          const std::function<bool(const NpyEntry&)>& wanted) const {
  return file_->ReadAll(num_threads, wanted);
}

absl::StatusOr<TensorView> NpzReader::Map(absl::string_view name) const { return file_->Map(name); }

absl::StatusOr<std::unique_ptr<ElementStream>> NpzReader::OpenStream(absl::string_view name) const {
  return file_->OpenStream(name);
}

absl::Status NpzReader::Verify(absl::string_view name) const { return file_->Verify(name); }

absl::Status NpzReader::VerifyAll(absl::FunctionRef<void(const NpyDamage&)> report) const {
  return file_->VerifyAll(report);
}

}  // namespace tensorcask
