// Plans the Huffman codes of a plane, and where each applies. Layers of a model differ, so one code for all of them
// would be a compromise: the planner cuts a plane into units, gives similar units one code, and joins neighbours with
// the same code to runs.
//
//   HuffmanPlanner planner;                                            // one a thread; keeps its buffers
//   CASK_ASSIGN_OR_RETURN(const HuffmanPlan* plan, planner.Plan(plane));
//   plan->bytes                                                        // the coded size, at most

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_HUFFMAN_PLAN_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_HUFFMAN_PLAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/codec/huffman_code.h"
#include "tensorcask/serialize/payload/codec/scratch.h"

namespace tensorcask::payload {

struct HuffmanPlan {
  struct Run {
    int units = 0;  // 1 to kMaxRunUnits; the next may go on with the same table
    int table = 0;
  };
  int unit_log = 0;  // the logarithm of a unit's bytes; the last may have fewer
  std::vector<CodeLengths> tables;
  std::vector<Run> runs;
  size_t bytes = 0;  // the size of the coded plane, at most

  // Codes of less than 2 bits, or one code for several bytes, would be smaller by a 17th at least.
  bool wants_shorter_codes = false;
};

class HuffmanPlanner {
 public:
  // The plan is valid until the next call, and depends on `plane` alone. Requires: 1 to 2^22 bytes.
  // Errors: ResourceExhausted without memory.
  absl::StatusOr<const HuffmanPlan*> Plan(absl::string_view plane);

  size_t MemoryBytes() const { return memory_.size_bytes(); }

 private:
  static constexpr int kMaxUnits = 1024;

  void CountUnits(absl::string_view plane);
  void GroupUnits();
  void AssignUnits(int num_groups, int step);
  int MergeGroups(int num_groups);
  void MakeTablesAndRuns(int num_groups);

  // How often each byte is in each unit.
  std::array<int16_t, 256>* Units() { return reinterpret_cast<std::array<int16_t, 256>*>(memory_.data()); }

  HuffmanPlan plan_;
  Scratch memory_;
  int num_units_ = 0;
  int first_ = 0, end_ = 0;                          // no other bytes occur
  std::array<uint8_t, kMaxUnits> group_of_ = {};     // the group of each unit
  std::array<ByteCounts, kMaxHuffmanTables> group_;  // what its units count together
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_HUFFMAN_PLAN_H_
