// One plan of reads for a whole call, where a file is read best in large pieces and several at a time (ReadShape).
//
//   ReadPlan plan;
//   for (...) plan.Add(file, offset, size_bytes);   // in the order of reading
//   plan.Start();
//   ... file->ReadAt(offset, out) ...               // as without a plan
//
// While the plan lives, the sources fetch what was added in pieces of piece_bytes, in_flight at a time, joined across
// gaps of gap_bytes, from the first read on and beside the caller. They hold at most in_flight * piece_bytes. ReadAt
// and ReadRanges take the bytes from there. Of a source like a disk (in_flight 1) nothing is planned: its reads stay as
// they are.
//
// If the memory is known in which a range will be read, Add gets it, too (`into`). Then the bytes go straight there,
// and the files are fetched one behind the other without waiting for the caller.

#ifndef TENSORCASK_SERIALIZE_IO_READ_PLAN_H_
#define TENSORCASK_SERIALIZE_IO_READ_PLAN_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/owner_process.h"

namespace tensorcask {

class ByteSource;

struct FileRange {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  // The memory in which the range will be read; null: unknown. It may be written to until the plan ends. Requires: each
  // byte is read once, into its place there.
  char* into = nullptr;
  // There will be such memory: Announcement::SetMemory tells it. The bytes are asked for at once.
  bool is_later = false;
};

// Ranges that a source fetches while this lives (ByteSource::Announce).
class Announcement {
 public:
  virtual ~Announcement() = default;

  // Fetches a piece straight into its memory, if there is one that no thread fetches yet. Returns false if there is
  // none, and will be none. For threads of another file that have nothing left to do.
  virtual bool FetchOne() { return false; }
  // The memory of the announced ranges that get it later, by their numbers there; null: they get none, and are not
  // fetched. Only the first call counts.
  virtual void SetMemory(absl::Span<char* const> /*memory*/) {}
};

// How ByteSource::Announce fetches ranges.
struct AnnounceOptions {
  AnnounceOptions() {}       // by hand: GCC 12 takes a defaulted one for uninitialized where it is a default argument
  bool is_read_once = true;  // false: bytes are kept, while there is room for them, since they are read several times
  uint64_t max_gap_bytes = UINT64_MAX;  // a smaller gap than read_shape() has: what lies between is not wanted
  // Called by the threads that fetch when the bytes from `begin` to `end` have come straight into their memory; null:
  // is not called.
  std::function<void(uint64_t begin, uint64_t end)> fetched;
  bool starts_now = false;  // fetches before the first read
  // What the threads that fetch go on with when nothing is left to fetch here; null: nothing.
  std::shared_ptr<Announcement> next;
};

// An order of the numbers 0 to size() - 1.
class StepOrder {
 public:
  explicit StepOrder(size_t size) : size_(size) {}  // from the first to the last
  explicit StepOrder(std::vector<size_t> numbers) : size_(numbers.size()), numbers_(std::move(numbers)) {}

  size_t size() const { return size_; }
  size_t operator[](size_t position) const { return numbers_.empty() ? position : numbers_[position]; }

 private:
  size_t size_;
  std::vector<size_t> numbers_;  // empty: from the first to the last
};

class ReadPlan {
 public:
  static constexpr size_t kNoNumber = SIZE_MAX;

  ReadPlan() = default;
  ~ReadPlan();
  ReadPlan(const ReadPlan&) = delete;
  ReadPlan& operator=(const ReadPlan&) = delete;

  // What one step of a loop reads. Null is no source.
  struct Step {
    std::shared_ptr<const ByteSource> source;
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
    std::vector<Step> more = {};  // what it reads after that
    char* into = nullptr;         // as FileRange::into
  };

  // Null is no source, and nothing is added. `number`: for WhenFetched.
  void Add(const std::shared_ptr<const ByteSource>& source, uint64_t offset, uint64_t size_bytes, char* into = nullptr,
           size_t number = kNoNumber);
  void Add(const Step& step, size_t number = kNoNumber);
  // As Add of a range whose memory is known later, which SetMemory asks for. Start begins to fetch it, and its file may
  // be one that is being opened (OpenFileSourceSoon): the round trips of opening and of the first reads are one.
  void AddLater(const std::shared_ptr<const ByteSource>& source, uint64_t offset, uint64_t size_bytes, size_t number);
  // Asks for the memory of the ranges of AddLater, by their numbers; null: the range is not fetched. After Start.
  void SetMemory(absl::FunctionRef<char*(size_t number)> memory_of);
  // Before Start: `fn` is called with the number of a range when its bytes have come straight into its memory, by the
  // thread that fetched them, beside the others and the caller. So they can be used while the rest arrives. It is not
  // called for ranges that arrived in several pieces or could not be fetched, and not any more once the plan has ended.
  void WhenFetched(std::function<void(size_t number)> fn) { fetched_ = std::move(fn); }
  // Call it once, after all Add.
  void Start();

  // Adds what the steps 0 to count - 1 read, each with its number, starts, and returns the order in which to take the
  // steps: by file and offset if anything is planned, else from the first to the last. A step without a source keeps
  // its place behind that before it. `step_of` may be called several times for a step. Where nothing is planned, no
  // memory is allocated.
  StepOrder StartSteps(size_t count, absl::FunctionRef<Step(size_t number)> step_of);

 private:
  struct Numbered {
    uint64_t offset = 0;
    uint64_t end = 0;
    size_t number = 0;
  };
  struct Planned {
    std::shared_ptr<const ByteSource> source;
    std::vector<FileRange> ranges;
    std::vector<size_t> numbers_later;        // of the ranges; empty: none gets its memory later
    std::vector<Numbered> numbered;           // those with a number, by offset
    std::shared_ptr<Announcement> announced;  // ends before the others
  };
  Planned* PlannedOf(const std::shared_ptr<const ByteSource>& source);
  void TellFetched(const Planned& planned, uint64_t begin, uint64_t end);

  const OwnerProcess owner_;
  std::function<void(size_t number)> fetched_;
  std::mutex mutex_;
  std::condition_variable told_;
  int telling_ = 0;  // calls of TellFetched that go on
  bool ends_ = false;
  std::vector<Planned> planned_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_READ_PLAN_H_
