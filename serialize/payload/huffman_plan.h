// Which prefix codes a plane gets, and where each holds. Layers of a model differ, and one code for all is a
// compromise: a plane is looked at in pieces ("units"), those alike get a code together, and neighbours with the same
// code are a run.
//
//   HuffmanPlanner planner;                                            // one a thread; keeps its memory
//   CASK_ASSIGN_OR_RETURN(const HuffmanPlan* plan, planner.Plan(plane));
//   plan->bytes                                                        // what it will take

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_HUFFMAN_PLAN_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_HUFFMAN_PLAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/huffman_code.h"
#include "tensorcask/serialize/payload/scratch.h"

namespace tensorcask::payload {

struct HuffmanPlan {
  struct Run {
    int units = 0;  // 1 to kMaxRunUnits; the next may go on with the same table
    int table = 0;
  };
  int unit_log = 0;  // the logarithm of a unit's bytes; the last may have fewer
  std::vector<CodeLengths> tables;
  std::vector<Run> runs;
  size_t bytes = 0;  // of the coded plane, at most

  // Codes of less than 2 bits, or one for many bytes, would be smaller by a 17th at least.
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
  std::array<uint8_t, kMaxUnits> group_of_ = {};     // of a unit
  std::array<ByteCounts, kMaxHuffmanTables> group_;  // what its units count together
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_HUFFMAN_PLAN_H_
