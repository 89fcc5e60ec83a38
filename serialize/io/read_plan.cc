#include "tensorcask/serialize/io/read_plan.h"

#include <algorithm>

#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask {

void ReadPlan::Add(const std::shared_ptr<const ByteSource>& source, uint64_t offset, uint64_t size_bytes) {
  if (source == nullptr || source->read_shape().in_flight <= 1) return;
  auto planned = std::find_if(planned_.begin(), planned_.end(), [&](const Planned& p) { return p.source == source; });
  if (planned == planned_.end()) planned = planned_.insert(planned, Planned{source, {}, nullptr});
  planned->ranges.push_back({offset, size_bytes});
}

void ReadPlan::Start() {
  for (Planned& planned : planned_) planned.announced = planned.source->Announce(planned.ranges);
}

}  // namespace tensorcask
