// One plan of reads for a whole call, where a file is read best in large pieces and several at a time (ReadShape).
//
//   ReadPlan plan;
//   for (...) plan.Add(file, offset, size_bytes);   // in the order of reading
//   plan.Start();
//   ... file->ReadAt(offset, out) ...               // as without a plan
//
// While the plan lives, the sources fetch what was added in pieces of piece_bytes, in_flight at a time, joined across
// gaps of gap_bytes, and hold at most so many pieces. ReadAt and ReadRanges take the bytes from there. Of a source like
// a disk (in_flight 1) nothing is planned: its reads stay as they are.

#ifndef TENSORCASK_SERIALIZE_IO_READ_PLAN_H_
#define TENSORCASK_SERIALIZE_IO_READ_PLAN_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tensorcask {

class ByteSource;

struct FileRange {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

class ReadPlan {
 public:
  ReadPlan() = default;
  ReadPlan(const ReadPlan&) = delete;
  ReadPlan& operator=(const ReadPlan&) = delete;

  // Null is no source, and nothing is added.
  void Add(const std::shared_ptr<const ByteSource>& source, uint64_t offset, uint64_t size_bytes);
  // Call it once, after all Add.
  void Start();

 private:
  struct Planned {
    std::shared_ptr<const ByteSource> source;
    std::vector<FileRange> ranges;
    std::shared_ptr<void> announced;  // ends before `source`
  };
  std::vector<Planned> planned_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_READ_PLAN_H_
