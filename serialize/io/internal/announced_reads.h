// The ranges of a file that will be read soon, fetched in large pieces, several at a time, before they are asked for.
// Internal.

#ifndef TENSORCASK_SERIALIZE_IO_INTERNAL_ANNOUNCED_READS_H_
#define TENSORCASK_SERIALIZE_IO_INTERNAL_ANNOUNCED_READS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/read_plan.h"
#include "tensorcask/tensor/base/owner_process.h"

namespace tensorcask::internal {

// From the first Read on, threads of its own fetch shape.in_flight pieces at a time, in the order of reading, while the
// caller uses those that are there. Holds at most shape.in_flight * shape.piece_bytes, beside the memory that ranges
// have (FileRange::into): a piece all of whose ranges have memory is fetched straight into it, and may be longer
// (ReadShape::PieceBytesOf). Thread-safe.
//
// In a child of fork(2), which has none of the threads, Read returns 0, and the copy of the object stays in memory: a
// condition variable on which threads waited cannot be destroyed there.
class AnnouncedReads final : public Announcement {
 public:
  struct Delete {
    void operator()(AnnouncedReads* reads) const;
  };
  // Reads one piece: all of its ranges, which are sorted and apart. Called from several threads.
  using ReadPiece = std::function<absl::Status(absl::Span<const ReadRange>)>;
  // As FileSystem::ReadPieceSoon; false: it failed.
  using ReadPieceSoon = std::function<bool(absl::Span<ReadRange>, absl::FunctionRef<bool()> find_memory)>;

  // `ranges` are in the order in which they will be read. A range is large if reading it alone keeps half of
  // shape.in_flight busy: it is fetched only for reads that are small. Requires: shape.in_flight > 1.
  AnnouncedReads(absl::Span<const FileRange> ranges, const ReadShape& shape, const AnnounceOptions& options,
                 ReadPiece read, ReadPieceSoon read_soon);
  ~AnnouncedReads() override { End(); }
  AnnouncedReads(const AnnouncedReads&) = delete;
  AnnouncedReads& operator=(const AnnouncedReads&) = delete;

  // Puts announced bytes from `offset` on to the front of `out` and returns their number. 0: the first of them is not
  // announced, was announced for other memory, was read before, or could not be fetched; the caller then reads the
  // file.
  size_t Read(uint64_t offset, absl::Span<char> out);

  // Waits for the pieces that are being fetched, by threads of other files, too. From then on nothing is fetched, so
  // that no range's memory is written to, and Read returns 0; another thread that is in Read may go on. The second call
  // does nothing.
  void End();

  bool FetchOne() override;
  void SetMemory(absl::Span<char* const> memory) override;

 private:
  enum class State { kWaiting, kFetching, kHeld, kDone };
  struct Piece {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t left = 0;  // announced bytes that were not read
    State state = State::kWaiting;
    bool is_large = false;  // of a large range without memory, alone
    bool is_direct = false;
    std::vector<ReadRange> parts;  // is_direct: what is read of the piece, and where to
    // Of the parts: the number of the range, as it was announced, and the place in it. Empty if their memory is known.
    std::vector<std::pair<size_t, uint64_t>> ranges;
    std::unique_ptr<char[]> bytes;  // else
  };

  void CutIntoPieces(absl::Span<const FileRange> ranges);
  void AddToPieces(const FileRange& range, size_t number);
  bool HoldOverlapping();
  bool StaysDirect(const FileRange& range, uint64_t offset) const;
  bool JoinsLast(const FileRange& range, uint64_t offset, bool is_large) const;
  Piece* Find(uint64_t offset);
  static uint64_t EndOfPlace(const Piece& piece, uint64_t offset, const char* out);
  static bool HasMemory(const Piece& piece);
  static uint64_t MemoryOf(const Piece& piece) { return piece.is_direct ? 0 : piece.end - piece.begin; }
  void PassOver(const Piece& first, uint64_t end);
  void Release(Piece* piece);
  void FetchFrom(Piece* first, std::unique_lock<std::mutex>* lock);
  void Fetch(Piece* piece, std::unique_lock<std::mutex>* lock);
  bool FetchNow(Piece* piece, std::unique_lock<std::mutex>* lock);
  bool FetchSoon(Piece* piece, std::unique_lock<std::mutex>* lock);
  Piece* NextToFetch();
  void StartThreads();
  void Work();

  const uint64_t piece_bytes_;
  const uint64_t gap_bytes_;
  const uint64_t most_bytes_;   // held at a time
  const uint64_t large_bytes_;  // from here a range is large
  const bool is_read_once_;
  const bool joins_ranges_;
  const size_t most_fetches_;  // at the same time
  const ReadPiece read_;
  const ReadPieceSoon read_soon_;
  const std::function<void(uint64_t begin, uint64_t end)> tell_fetched_;  // null: is not called
  uint64_t direct_bytes_;                                                 // of a direct piece, at most
  const OwnerProcess owner_;
  std::mutex mutex_;
  std::condition_variable fetched_;             // a piece is there, or cannot be fetched
  std::condition_variable memory_told_;         // SetMemory was called, or the end has come
  std::condition_variable room_;                // there may be something to fetch, and room for it
  std::vector<Piece> pieces_;                   // in the order of reading
  std::vector<size_t> by_offset_;               // numbers of pieces
  std::vector<std::unique_ptr<char[]>> spare_;  // of piece_bytes_: fresh memory costs more than to fill it
  uint64_t held_bytes_ = 0;                     // those of pieces that are being fetched included
  size_t fetches_ = 0;                          // that go on
  size_t fetches_of_others_ = 0;                // calls of FetchOne that fetch a piece
  std::shared_ptr<Announcement> after_this_;    // null: there is none, or the end has come
  size_t next_ = 0;                             // the first piece that the threads look at
  bool fetches_large_ = false;
  size_t next_direct_ = 0;     // the first piece that threads of other files look at
  bool has_memory_ = true;     // false: SetMemory has not been called
  bool is_all_taken_ = false;  // of after_this_, too
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_IO_INTERNAL_ANNOUNCED_READS_H_
