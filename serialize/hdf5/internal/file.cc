#include "tensorcask/serialize/hdf5/internal/file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/hdf5/internal/metadata_checksum.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::hdf5 {
namespace {

constexpr uint64_t kMaxSuperblockBytes = 256;  // the largest of all versions
constexpr uint64_t kFirstUserBlock = 512;      // bytes in front of the superblock: none, 512, 1024, 2048, ...
constexpr uint64_t kSlackBytes = uint64_t{1} << 20;

absl::StatusOr<uint64_t> FindSuperblock(const ByteSource& source) {
  char bytes[kSignature.size()];
  for (uint64_t at = 0; RangeFits(at, sizeof(bytes), source.size_bytes()); at = at == 0 ? kFirstUserBlock : 2 * at) {
    CASK_RETURN_IF_ERROR(source.ReadAt(at, absl::MakeSpan(bytes)));
    if (absl::string_view(bytes, sizeof(bytes)) == kSignature) return at;
  }
  return absl::DataLossError("is no HDF5 file: it has no superblock");
}

bool IsSizeOfNumbers(int bytes) { return bytes == 2 || bytes == 4 || bytes == 8; }

}  // namespace

absl::StatusOr<File> File::Open(std::shared_ptr<const ByteSource> source, ListingBudget* listing) {
  File file(std::move(source), listing);
  CASK_ASSIGN_OR_RETURN(file.base_, FindSuperblock(*file.source_));
  CASK_ASSIGN_OR_RETURN(const std::string superblock, file.ReadAtMost(0, kMaxSuperblockBytes));
  Cursor in(superblock);
  in.Skip(kSignature.size());
  const uint64_t version = in.Uint(1);
  if (version <= 1) {
    CASK_RETURN_IF_ERROR(file.ParseVersion0(superblock));
  } else if (version <= 3) {
    CASK_RETURN_IF_ERROR(file.ParseVersion2(superblock));
  } else {
    return absl::UnimplementedError(absl::StrCat("has a superblock of version ", version, "; 0 to 3 are read"));
  }
  return file;
}

absl::Status File::ParseVersion0(absl::string_view superblock) {
  Cursor in(superblock);
  in.Skip(kSignature.size());
  const uint64_t version = in.Uint(1);
  in.Skip(4);  // versions of other parts
  address_bytes_ = static_cast<int>(in.Uint(1));
  length_bytes_ = static_cast<int>(in.Uint(1));
  in.Skip(1 + 2 + 2 + 4);  // sizes of nodes of groups, which each node says itself, and flags
  if (version == 1) in.Skip(4);
  CASK_RETURN_IF_ERROR(CheckSizes());
  const uint64_t base = Address(&in);
  Address(&in);  // the address of free space
  const uint64_t end = Address(&in);
  Address(&in);  // the address of the driver
  Address(&in);  // the address of the name of the root group, which has none
  root_ = Address(&in);
  if (!in.ok()) return CutShort("its superblock");
  return CheckEnd(base, end);
}

absl::Status File::ParseVersion2(absl::string_view superblock) {
  Cursor in(superblock);
  in.Skip(kSignature.size() + 1);
  address_bytes_ = static_cast<int>(in.Uint(1));
  length_bytes_ = static_cast<int>(in.Uint(1));
  in.Skip(1);  // flags
  CASK_RETURN_IF_ERROR(CheckSizes());
  const uint64_t base = Address(&in);
  Address(&in);  // the address of the extension
  const uint64_t end = Address(&in);
  root_ = Address(&in);
  in.Skip(4);
  if (!in.ok()) return CutShort("its superblock");
  const absl::Status checked = CheckMetadataChecksum(superblock.substr(0, in.position()));
  if (!checked.ok()) return absl::DataLossError(absl::StrCat("the superblock ", checked.message()));
  return CheckEnd(base, end);
}

absl::Status File::CheckSizes() const {
  if (IsSizeOfNumbers(address_bytes_) && IsSizeOfNumbers(length_bytes_)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the superblock has addresses of ", address_bytes_, " bytes and lengths of ",
                                          length_bytes_, "; 2, 4 and 8 are possible"));
}

absl::Status File::CheckEnd(uint64_t base, uint64_t end) const {
  if (base != base_) {
    return absl::DataLossError(
        absl::StrCat("the superblock at ", base_, " says that addresses count from ", base, ", not from there"));
  }
  if (end != kUndefined && end <= source_->size_bytes()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("is cut short: it has ", source_->size_bytes(), " bytes, and should have ", end));
}

uint64_t File::Address(Cursor* in) const {
  const uint64_t address = in->Uint(address_bytes_);
  const uint64_t undefined = kUndefined >> (64 - 8 * address_bytes_);
  return address == undefined ? kUndefined : address;
}

absl::StatusOr<uint64_t> File::Position(uint64_t address, uint64_t size) const {
  if (address != kUndefined && RangeFits(address, size, source_->size_bytes() - base_)) return base_ + address;
  return absl::DataLossError(absl::StrCat(size, " bytes at ",
                                          address == kUndefined ? "no address" : absl::StrCat("address ", address),
                                          " leave the file, which has ", source_->size_bytes() - base_));
}

absl::StatusOr<std::string> File::Read(uint64_t address, uint64_t size) {
  CASK_ASSIGN_OR_RETURN(const uint64_t position, Position(address, size));
  const uint64_t most =
      source_->size_bytes() > (kUndefined - kSlackBytes) / 2 ? kUndefined : 2 * source_->size_bytes() + kSlackBytes;
  if (size > most - read_bytes_) {
    return absl::DataLossError("its metadata overlaps: more was read than twice the size of the file");
  }
  read_bytes_ += size;
  listing_->AddIndex(size);
  std::string bytes(static_cast<size_t>(size), '\0');
  CASK_RETURN_IF_ERROR(source_->ReadAt(position, absl::MakeSpan(bytes.data(), bytes.size())));
  return bytes;
}

absl::StatusOr<std::string> File::ReadAtMost(uint64_t address, uint64_t size) {
  CASK_RETURN_IF_ERROR(Position(address, 0).status());
  return Read(address, std::min(size, source_->size_bytes() - base_ - address));
}

}  // namespace tensorcask::hdf5
