// Host memory on chosen NUMA nodes: memory that is close to one processor, or spread over several.
//
//   NumaAllocator::Options options;
//   options.nodes = {0};                                   // numbers as in /sys/devices/system/node
//   CASK_ASSIGN_OR_RETURN(const auto allocator, NumaAllocator::Create(options));
//   CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(DType::kFloat32, shape, allocator));
//
// Each allocation is a mapping of its own, in whole pages: put a PoolAllocator above it for small or frequent ones.
// Thread-safe. The rules are those of mbind(2) of Linux.

#ifndef TENSORCASK_TENSOR_MEMORY_NUMA_ALLOCATOR_H_
#define TENSORCASK_TENSOR_MEMORY_NUMA_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"

namespace tensorcask {

class NumaAllocator final : public Allocator {
 public:
  static constexpr int kMaxNodes = 64;  // nodes are numbered 0 to 63

  enum class Policy : uint8_t {
    kBind,        // pages come from `nodes` only
    kInterleave,  // pages go round `nodes`
  };
  struct Options {
    std::vector<int> nodes;
    Policy policy = Policy::kBind;
    bool huge_pages = true;  // advises huge pages for blocks of at least CpuAllocator::kHugePageBlock bytes
  };
  // The call that sets the policy of a range: zero, or an error number. Tests pass their own.
  using BindFunction = int (*)(void* start, size_t bytes, Policy policy, uint64_t node_mask);

  // Tries the policy on one page.
  // Errors: InvalidArgument for no nodes, a node outside 0 to 63, or nodes that the kernel refuses for this process;
  // Unimplemented if the system has no mbind or forbids it; ResourceExhausted if there is no memory for the page.
  static absl::StatusOr<RefPtr<NumaAllocator>> Create(const Options& options) { return Create(options, &Bind); }
  static absl::StatusOr<RefPtr<NumaAllocator>> Create(const Options& options, BindFunction bind);

  absl::string_view name() const override { return "numa"; }
  // Null if the system has no addresses left or refuses the policy. Pages get memory at the first access.
  void* Allocate(size_t bytes) override;
  void Deallocate(void* block, size_t bytes) override;

 private:
  NumaAllocator(uint64_t node_mask, const Options& options, BindFunction bind)
      : node_mask_(node_mask), policy_(options.policy), huge_pages_(options.huge_pages), bind_(bind) {}

  static int Bind(void* start, size_t bytes, Policy policy, uint64_t node_mask);

  const uint64_t node_mask_;
  const Policy policy_;
  const bool huge_pages_;
  const BindFunction bind_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_NUMA_ALLOCATOR_H_
