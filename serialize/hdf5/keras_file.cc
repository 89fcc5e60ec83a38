#include "tensorcask/serialize/hdf5/keras_file.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/zip/zip_directory.h"
#include "tensorcask/serialize/zip/zip_member_stream.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {
namespace {

constexpr absl::string_view kWeights = "model.weights.h5";
constexpr absl::string_view kTextExtension = ".json";

// All bytes of a member, whose checksum is compared.
absl::StatusOr<RefPtr<TensorBuffer>> ReadMember(const ByteSource& file, const ZipMember& member, DecodeQuota* quota,
                                                const RefPtr<Allocator>& allocator) {
  const auto read = [&]() -> absl::StatusOr<RefPtr<TensorBuffer>> {
    CASK_RETURN_IF_ERROR(quota->Charge(member.size_bytes));
    CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> bytes,
                          TensorBuffer::Allocate(static_cast<size_t>(member.size_bytes), allocator));
    ZipMemberStream stream(&file, &member, /*verify=*/true);
    CASK_RETURN_IF_ERROR(stream.Read(absl::MakeSpan(static_cast<char*>(bytes->mutable_data()), bytes->size_bytes())));
    CASK_RETURN_IF_ERROR(stream.Finish());
    return bytes;
  };
  CASK_ASSIGN_OR_ANNOTATE(RefPtr<TensorBuffer> bytes, read(),
                          absl::StrCat(file.name(), ": member ", Quoted(member.name)));
  return bytes;
}

}  // namespace

bool LooksLikeKerasFile(absl::string_view first_bytes) {
  constexpr size_t kLocalHeaderBytes = 30;
  if (!IsZip(first_bytes) || first_bytes.size() < kLocalHeaderBytes) return false;
  const absl::string_view first_name = first_bytes.substr(kLocalHeaderBytes);
  return absl::StartsWith(first_name, "metadata.json") || absl::StartsWith(first_name, "config.json") ||
         absl::StartsWith(first_name, kWeights);
}

absl::StatusOr<KerasFile> OpenKerasFile(const std::string& path, const Hdf5ReaderOptions& options) {
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(path, options.read));
  CASK_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ReadZipDirectory(*file, options.limits));
  // Texts and deflated weights are in memory.
  DecodeQuota quota = DecodeQuota::ForUnbacked(options.limits, file->size_bytes());
  std::shared_ptr<const ByteSource> weights;
  ZipMember member_of_weights;
  std::map<std::string, std::string> texts;
  std::vector<std::string> notes;
  for (const ZipMember& member : members) {
    if (member.is_folder()) continue;
    if (member.name == kWeights) member_of_weights = member;
    if (member.name == kWeights && !member.deflated) {
      CASK_ASSIGN_OR_RETURN(weights, MakeWindow(file, member.data_offset, member.size_bytes));
    } else if (member.name == kWeights) {
      CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> bytes, ReadMember(*file, member, &quota, options.allocator));
      weights = MakeMemorySource(file->name(), std::move(bytes));
    } else if (absl::EndsWith(member.name, kTextExtension)) {
      CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> bytes, ReadMember(*file, member, &quota, options.allocator));
      if (!internal::IsUtf8(bytes->bytes())) {
        return absl::DataLossError(absl::StrCat(path, ": member ", Quoted(member.name), " is not UTF-8"));
      }
      texts.emplace(member.name, bytes->bytes());
    } else {
      notes.push_back(absl::StrCat("the member ", Quoted(member.name), " is not read"));
    }
  }
  if (weights == nullptr) {
    return absl::DataLossError(absl::StrCat(path, ": has no member ", kWeights, ", the weights of a Keras model"));
  }
  CASK_ASSIGN_OR_RETURN(Hdf5Reader reader, Hdf5Reader::OpenSource(std::move(weights), options));
  return KerasFile{std::move(reader), std::move(texts), std::move(notes), file, std::move(member_of_weights)};
}

absl::Status VerifyWeights(const KerasFile& model) {
  ZipMemberStream stream(model.archive.get(), &model.member, /*verify=*/true);
  return Annotate(stream.Finish(), absl::StrCat(model.archive->name(), ": member ", Quoted(model.member.name)));
}

}  // namespace tensorcask
