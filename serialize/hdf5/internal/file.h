// An HDF5 file as its superblock describes it: where addresses count from, how large they are, where the root group is.
//
//   CASK_ASSIGN_OR_RETURN(File file, File::Open(source, &listing));
//   CASK_ASSIGN_OR_RETURN(std::string node, file.Read(address, 544));
//
// Metadata of a whole file is read once, or little more. So all of Read together may give twice the size of the file:
// objects of a hostile file that overlap cost no more than that.

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_FILE_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_FILE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/internal/cursor.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/listing_budget.h"

namespace tensorcask::hdf5 {

// The first bytes of a superblock.
inline constexpr absl::string_view kSignature = "\x89HDF\r\n\x1a\n";

// An address that leads nowhere: nothing was allocated.
inline constexpr uint64_t kUndefined = std::numeric_limits<uint64_t>::max();

// True if `status` says that a part of the file is damaged or of a form that is not read. Others end the reading of the
// whole file: a limit, the source.
inline bool IsAboutContent(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsUnimplemented(status);
}

class File {
 public:
  // Reads the superblock. Metadata that is read is charged as that of an index. Requires: `listing` outlives this.
  // Errors, which do not name the file: DataLoss if it is not HDF5, is cut short or breaks a rule; Unimplemented for
  // another version.
  static absl::StatusOr<File> Open(std::shared_ptr<const ByteSource> source, ListingBudget* listing);

  const std::shared_ptr<const ByteSource>& source() const { return source_; }
  uint64_t root() const { return root_; }  // address of the object header of the root group
  int address_bytes() const { return address_bytes_; }
  int length_bytes() const { return length_bytes_; }

  // The next address, kUndefined or not, and the next length.
  uint64_t Address(Cursor* in) const;
  uint64_t Length(Cursor* in) const { return in->Uint(length_bytes_); }

  // Metadata. Errors: DataLoss if it leaves the file, or past twice the size of the file; those of the source.
  absl::StatusOr<std::string> Read(uint64_t address, uint64_t size);
  // The same, cut at the end of the file.
  absl::StatusOr<std::string> ReadAtMost(uint64_t address, uint64_t size);

  // Where the bytes are in source(). Errors: DataLoss if they leave the file.
  absl::StatusOr<uint64_t> Position(uint64_t address, uint64_t size) const;

 private:
  File(std::shared_ptr<const ByteSource> source, ListingBudget* listing)
      : source_(std::move(source)), listing_(listing) {}

  absl::Status ParseVersion0(absl::string_view superblock);
  absl::Status ParseVersion2(absl::string_view superblock);
  absl::Status CheckSizes() const;
  absl::Status CheckEnd(uint64_t base, uint64_t end) const;

  std::shared_ptr<const ByteSource> source_;
  ListingBudget* listing_;
  uint64_t base_ = 0;  // where addresses begin, in the source
  uint64_t root_ = kUndefined;
  uint64_t read_bytes_ = 0;
  int address_bytes_ = 8;
  int length_bytes_ = 8;
};

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_FILE_H_
