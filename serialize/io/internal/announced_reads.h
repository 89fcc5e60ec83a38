// The ranges of a file that will be read soon, fetched in large pieces, several at a time, before they are asked for.
// Internal.

#ifndef TENSORCASK_SERIALIZE_IO_INTERNAL_ANNOUNCED_READS_H_
#define TENSORCASK_SERIALIZE_IO_INTERNAL_ANNOUNCED_READS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/read_plan.h"

namespace tensorcask::internal {

// Holds at most shape.in_flight * shape.piece_bytes. Thread-safe.
class AnnouncedReads {
 public:
  using ReadMany = std::function<absl::Status(absl::Span<const ReadRange>)>;

  // `ranges` are in the order in which they will be read. A range is large if reading it alone keeps half of
  // shape.in_flight busy: it is fetched only for reads that are small. Requires: shape.in_flight > 1.
  AnnouncedReads(absl::Span<const FileRange> ranges, const ReadShape& shape, const AnnounceOptions& options,
                 ReadMany read);

  // Copies announced bytes from `offset` on to the front of `out` and returns their number. 0: the first of them is not
  // announced, was read before, or could not be fetched; the caller then reads the file.
  size_t Read(uint64_t offset, absl::Span<char> out);

 private:
  enum class State { kWaiting, kHeld, kDone };
  struct Piece {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t left = 0;  // announced bytes that were not read
    State state = State::kWaiting;
    bool is_large = false;  // of a large range, alone
    std::unique_ptr<char[]> bytes;
  };

  void AddToPieces(uint64_t offset, uint64_t size_bytes);
  Piece* Find(uint64_t offset);
  void PassOver(const Piece& first, uint64_t end);
  void Release(Piece* piece);
  void FetchFrom(size_t first);

  const uint64_t piece_bytes_;
  const uint64_t gap_bytes_;
  const uint64_t most_bytes_;   // held at a time
  const uint64_t large_bytes_;  // from here a range is large
  const bool is_read_once_;
  const ReadMany read_;
  std::mutex mutex_;
  std::vector<Piece> pieces_;      // in the order of reading
  std::vector<size_t> by_offset_;  // numbers of pieces
  uint64_t held_bytes_ = 0;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_IO_INTERNAL_ANNOUNCED_READS_H_
