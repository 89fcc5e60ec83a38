#include "tensorcask/serialize/payload/codec/huffman_plan.h"

#include <algorithm>

#include "tensorcask/serialize/payload/codec/byte_entropy.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::payload {
namespace {

constexpr size_t kMaxPlaneBytes = size_t{1} << 22;
constexpr int kBlock = 32;  // byte values are scanned in blocks, because most planes use few values

// A further code must save the size of its table, and more for the time to decode the table.
constexpr uint64_t kTableBits = 1000;

// In 1/16 bit: a run, which is a byte, and what codes are taken to be between. The most is that of a byte that a group
// has not seen yet.
constexpr int kRunCost = 8 * 16;
constexpr uint64_t kLeastLength = 28;
constexpr uint64_t kMostLength = 208;

// If groups would save less than a 400th of the plane, one code is used.
constexpr uint64_t kWorthGrouping = 400;

constexpr int kUnitLog = 9;        // for all planes but large ones
constexpr int kUnitsOfGroup = 64;  // at the beginning
constexpr int kFirstStep = 4;      // only every fourth unit is used to find the groups

using UnitCounts = std::array<int16_t, 256>;
using ValueLengths = std::array<int16_t, 256>;  // by byte, in 1/16 bit

// Only byte values in [first, end), multiples of kBlock, are scanned.
struct Range {
  int first;
  int end;
};

inline __attribute__((always_inline)) void CountUnit(absl::string_view unit, UnitCounts* sums, UnitCounts* seen) {
  // Four tables, so that a run of equal bytes does not wait for one counter.
  std::array<UnitCounts, 4> counts;
  for (UnitCounts& some : counts) {
    for (int16_t& count : some) count = 0;
  }
  const auto* const bytes = reinterpret_cast<const uint8_t*>(unit.data());
  size_t i = 0;
  for (; i + 8 <= unit.size(); i += 8) {
    for (int k = 0; k < 8; ++k) ++counts[k % 4][bytes[i + k]];
  }
  for (; i < unit.size(); ++i) ++counts[0][bytes[i]];
  for (int k = 0; k < 256; ++k) {
    (*sums)[k] = static_cast<int16_t>(counts[0][k] + counts[1][k] + counts[2][k] + counts[3][k]);
    (*seen)[k] = static_cast<int16_t>((*seen)[k] | (*sums)[k]);
  }
}

inline __attribute__((always_inline)) void AddUnit(const UnitCounts& counts, Range range, ByteCounts* sum) {
  for (int begin = range.first; begin < range.end; begin += kBlock) {
    for (int i = begin; i < begin + kBlock; ++i) (*sum)[i] += static_cast<uint32_t>(counts[i]);
  }
}

// The code, of `num_groups`, that makes a unit smallest. `previous`: the code of the unit before it (-1: no unit).
// Requires: no sum reaches 2^31.
inline __attribute__((always_inline)) int CheapestGroup(const UnitCounts& counts, const ValueLengths* lengths,
                                                        int num_groups, Range range, int previous) {
  int32_t least = INT32_MAX;
  int best = 0;
  for (int group = 0; group < num_groups; ++group) {
    int32_t cost = 0;
    for (int begin = range.first; begin < range.end; begin += kBlock) {
      for (int i = begin; i < begin + kBlock; ++i) cost += int32_t{counts[i]} * int32_t{lengths[group][i]};
    }
    if (previous >= 0 && group != previous) cost += kRunCost;
    if (cost < least) {
      least = cost;
      best = group;
    }
  }
  return best;
}

struct Functions {
  void (*count_unit)(absl::string_view unit, UnitCounts* sums, UnitCounts* seen);
  void (*add_unit)(const UnitCounts& counts, Range range, ByteCounts* sum);
  int (*cheapest_group)(const UnitCounts& counts, const ValueLengths* lengths, int num_groups, Range range,
                        int previous);
};

// Compiled for registers of 16 or 32 bytes.
#define CASK_FUNCTIONS(name, ...)                                                                          \
  struct name {                                                                                            \
    __VA_ARGS__ static void Count(absl::string_view unit, UnitCounts* sums, UnitCounts* seen) {            \
      CountUnit(unit, sums, seen);                                                                         \
    }                                                                                                      \
    __VA_ARGS__ static void Add(const UnitCounts& counts, Range range, ByteCounts* sum) {                  \
      AddUnit(counts, range, sum);                                                                         \
    }                                                                                                      \
    __VA_ARGS__ static int Cheapest(const UnitCounts& counts, const ValueLengths* lengths, int num_groups, \
                                    Range range, int previous) {                                           \
      return CheapestGroup(counts, lengths, num_groups, range, previous);                                  \
    }                                                                                                      \
  };
CASK_FUNCTIONS(Anywhere)
#if defined(__x86_64__)
CASK_FUNCTIONS(OnAvx2, __attribute__((target("avx2"))))
#endif
#undef CASK_FUNCTIONS

Functions FindFunctions() {
#if defined(__x86_64__)
  if (GetCpuFeatures().avx2) return {OnAvx2::Count, OnAvx2::Add, OnAvx2::Cheapest};
#endif
  return {Anywhere::Count, Anywhere::Add, Anywhere::Cheapest};
}

}  // namespace

absl::StatusOr<const HuffmanPlan*> HuffmanPlanner::Plan(absl::string_view plane) {
  CASK_CHECK(!plane.empty() && plane.size() <= kMaxPlaneBytes, "Plan: no plane has such a size");
  static_assert(kMaxPlaneBytes / kMaxUnits < INT16_MAX / 2, "counts of a unit are int16_t");
  plan_.unit_log = kUnitLog;
  while ((plane.size() - 1) >> plan_.unit_log >= kMaxUnits) ++plan_.unit_log;
  num_units_ = static_cast<int>((plane.size() - 1) >> plan_.unit_log) + 1;
  CASK_RETURN_IF_ERROR(memory_.Reserve(num_units_ * sizeof(UnitCounts)));
  CountUnits(plane);
  GroupUnits();
  return &plan_;
}

void HuffmanPlanner::CountUnits(absl::string_view plane) {
  const Functions functions = FindFunctions();
  UnitCounts* const units = Units();
  UnitCounts seen = {};
  for (int unit = 0; unit < num_units_; ++unit) {
    const absl::string_view bytes = plane.substr(size_t{1} * unit << plan_.unit_log, size_t{1} << plan_.unit_log);
    functions.count_unit(bytes, &units[unit], &seen);
  }
  const auto occurs = [](int16_t count) { return count != 0; };
  const auto first = std::find_if(seen.begin(), seen.end(), occurs) - seen.begin();
  const auto end = seen.rend() - std::find_if(seen.rbegin(), seen.rend(), occurs);
  first_ = static_cast<int>(first) / kBlock * kBlock;
  end_ = (static_cast<int>(end) + kBlock - 1) / kBlock * kBlock;
}

// Neighbouring units are likely to be similar: starts with groups of neighbours, then moves each unit to the group in
// which it is cheapest.
void HuffmanPlanner::GroupUnits() {
  const Functions functions = FindFunctions();
  const UnitCounts* const units = Units();
  int num_groups = std::clamp(num_units_ / kUnitsOfGroup, 1, kMaxHuffmanTables);
  for (int group = 0; group < num_groups; ++group) group_[group].fill(0);
  for (int unit = 0; unit < num_units_; ++unit) {
    group_of_[unit] = static_cast<uint8_t>(unit * num_groups / num_units_);
    functions.add_unit(units[unit], {first_, end_}, &group_[group_of_[unit]]);
  }
  ByteCounts all = {};
  uint64_t grouped_bits = 0;
  for (int group = 0; group < num_groups; ++group) {
    grouped_bits += CountedBits(group_[group].data(), 256);
    for (int i = 0; i < 256; ++i) all[i] += group_[group][i];
  }
  const uint64_t all_bits = CountedBits(all.data(), 256);
  if (all_bits - std::min(all_bits, grouped_bits) <= all_bits / kWorthGrouping) {
    std::fill_n(group_of_.begin(), num_units_, uint8_t{0});
    group_[0] = all;
    num_groups = 1;
  }
  if (num_groups > 1) {
    AssignUnits(num_groups, kFirstStep);
    num_groups = MergeGroups(num_groups);
    AssignUnits(num_groups, 1);
  }
  MakeTablesAndRuns(num_groups);
}

void HuffmanPlanner::AssignUnits(int num_groups, int step) {
  const Functions functions = FindFunctions();
  std::array<ValueLengths, kMaxHuffmanTables> lengths;  // fractional lengths of an ideal code
  for (int group = 0; group < num_groups; ++group) {
    uint32_t total = 0;
    for (const uint32_t count : group_[group]) total += count;
    const uint64_t most = Log2(total + 1);
    for (int i = first_; i < end_; ++i) {
      const uint32_t count = group_[group][i];
      const uint64_t length = count == 0 ? UINT64_MAX : most - std::min(most, Log2(count));
      lengths[group][i] = static_cast<int16_t>(std::clamp(length >> 12, kLeastLength, kMostLength));
    }
    group_[group].fill(0);
  }
  const UnitCounts* const units = Units();
  int previous = -1;
  for (int unit = 0; unit < num_units_; unit += step) {
    previous = functions.cheapest_group(units[unit], lengths.data(), num_groups, {first_, end_}, previous);
    group_of_[unit] = static_cast<uint8_t>(previous);
    functions.add_unit(units[unit], {first_, end_}, &group_[previous]);
  }
}

// Merges two groups while that costs less than a table. Returns the number of groups left. The next assignment chooses
// the groups of the units.
int HuffmanPlanner::MergeGroups(int num_groups) {
  const auto bits_of = [this](const ByteCounts& counts) { return CountedBits(counts.data() + first_, end_ - first_); };
  std::array<uint64_t, kMaxHuffmanTables> bits;
  std::array<std::array<uint64_t, kMaxHuffmanTables>, kMaxHuffmanTables> loss;  // [a][b], b < a: of merging them
  const auto find_loss = [&](int a, int b) {
    ByteCounts both;
    for (int i = first_; i < end_; ++i) both[i] = group_[a][i] + group_[b][i];
    const uint64_t together = bits_of(both);
    return together - std::min(together, bits[a] + bits[b]);
  };
  for (int a = 0; a < num_groups; ++a) {
    bits[a] = bits_of(group_[a]);
    for (int b = 0; b < a; ++b) loss[a][b] = find_loss(a, b);
  }
  while (num_groups > 1) {
    int from = 1, to = 0;
    for (int a = 1; a < num_groups; ++a) {
      for (int b = 0; b < a; ++b) {
        if (loss[a][b] < loss[from][to]) {
          from = a;
          to = b;
        }
      }
    }
    if (loss[from][to] >= (kTableBits << 16) / kFirstStep) break;
    for (int i = 0; i < 256; ++i) group_[to][i] += group_[from][i];
    // The last group takes the index of the removed one.
    const int last = --num_groups;
    group_[from] = group_[last];
    bits[from] = bits[last];
    for (int other = 0; other < num_groups; ++other) {
      if (other < from) loss[from][other] = loss[last][other];
      if (other > from) loss[other][from] = loss[last][other];
    }
    bits[to] = bits_of(group_[to]);
    for (int other = 0; other < num_groups; ++other) {
      if (other != to) loss[std::max(other, to)][std::min(other, to)] = find_loss(other, to);
    }
  }
  return num_groups;
}

void HuffmanPlanner::MakeTablesAndRuns(int num_groups) {
  plan_.tables.clear();
  plan_.runs.clear();
  plan_.bytes = kHuffmanHeaderBytes + kHuffmanStreams;
  std::array<int, kMaxHuffmanTables> table_of;
  table_of.fill(-1);
  for (int unit = 0; unit < num_units_; ++unit) {
    int& table = table_of[group_of_[unit]];
    if (table < 0) {
      table = static_cast<int>(plan_.tables.size());
      plan_.tables.push_back(MakeCodeLengths(group_[group_of_[unit]]));
    }
    group_of_[unit] = static_cast<uint8_t>(table);
    if (plan_.runs.empty() || plan_.runs.back().table != table || plan_.runs.back().units == kMaxRunUnits) {
      plan_.runs.push_back({0, table});
    }
    ++plan_.runs.back().units;
  }
  plan_.bytes += plan_.runs.size();
  for (const CodeLengths& lengths : plan_.tables) plan_.bytes += CodeLengthsBytes(lengths);
  uint64_t bits = 0;
  uint64_t least_bits = 0;  // the size with codes that have fractions of bits
  for (int group = 0; group < num_groups; ++group) {
    if (table_of[group] < 0) continue;
    const CodeLengths& lengths = plan_.tables[table_of[group]];
    for (int i = first_; i < end_; ++i) bits += uint64_t{group_[group][i]} * lengths[i];
    least_bits += CountedBits(group_[group].data() + first_, end_ - first_) >> 16;
  }
  plan_.bytes += (bits + 7) / 8;
  plan_.wants_shorter_codes = bits > least_bits + least_bits / 16;
}

}  // namespace tensorcask::payload
