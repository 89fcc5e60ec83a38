// The data of one array, as the readers of elements see it: bytes after the header, from front to back. Internal.
//
//   CASK_ASSIGN_OR_RETURN(std::unique_ptr<DataCursor> cursor, data.Open(ArrayData::Use::kWhole));
//   CASK_RETURN_IF_ERROR(cursor->ReadAt(0, bytes));
//   CASK_RETURN_IF_ERROR(cursor->Finish());   // compares the checksum, if there is one and it was asked for

#ifndef TENSORCASK_SERIALIZE_NPY_INTERNAL_ARRAY_DATA_H_
#define TENSORCASK_SERIALIZE_NPY_INTERNAL_ARRAY_DATA_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/read_plan.h"

namespace tensorcask::npy {

// One caller at a time. Offsets count from the first byte of data, and never decrease from call to call.
class DataCursor {
 public:
  virtual ~DataCursor() = default;
  virtual absl::Status ReadAt(uint64_t offset, absl::Span<char> out) = 0;
  // `ranges` in increasing order.
  virtual absl::Status ReadRanges(absl::Span<const ReadRange> ranges) {
    for (const ReadRange& range : ranges) {
      if (absl::Status status = ReadAt(range.offset, range.out); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  virtual absl::Status Finish() { return absl::OkStatus(); }
};

// Reads bytes that are stored in the file as they are.
class StoredCursor final : public DataCursor {
 public:
  StoredCursor(const ByteSource* file, uint64_t data_offset) : file_(file), data_offset_(data_offset) {}
  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) override {
    return file_->ReadAt(data_offset_ + offset, out);
  }
  absl::Status ReadRanges(absl::Span<const ReadRange> ranges) override;

 private:
  const ByteSource* file_;
  uint64_t data_offset_;
};

// Methods are const and safe from several threads.
class ArrayData {
 public:
  enum class Use {
    kPart,    // some of the bytes
    kWhole,   // all of them: the checksum is compared if the options say so and it was not before
    kVerify,  // all of them: the checksum is compared in any case
  };

  virtual ~ArrayData() = default;
  virtual absl::StatusOr<std::unique_ptr<DataCursor>> Open(Use use) const = 0;
  // Where the data begins in the file; empty if it is compressed.
  virtual std::optional<uint64_t> stored_at() const = 0;
  virtual uint64_t stored_bytes() const = 0;
  // What Open(kVerify) reads of the file, for a plan of reads.
  virtual FileRange place() const = 0;
  // The same of Open(kWhole), as things are now.
  virtual FileRange place_of_whole() const { return place(); }
  // True if a checksum must be compared before these bytes may be mapped, or trusted in part.
  virtual bool is_unverified() const { return false; }
};

}  // namespace tensorcask::npy

#endif  // TENSORCASK_SERIALIZE_NPY_INTERNAL_ARRAY_DATA_H_
