#include "tensorcask/serialize/hdf5/internal/btree.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/hdf5/internal/cursor.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::hdf5 {

absl::Status WalkBTree(uint64_t root, BTreeKind kind, uint64_t key_bytes, File* file,
                       absl::FunctionRef<absl::Status(absl::string_view key, uint64_t child)> leaf) {
  struct Node {
    uint64_t address;
    int level;  // -1: that of the root, which it says itself
  };
  if (root == kUndefined) return absl::OkStatus();
  const auto address_bytes = static_cast<uint64_t>(file->address_bytes());
  const uint64_t head_bytes = 8 + 2 * address_bytes;
  std::vector<Node> nodes = {{root, -1}};  // that are left; the next one last
  absl::flat_hash_set<uint64_t> seen;
  while (!nodes.empty()) {
    const Node node = nodes.back();
    nodes.pop_back();
    const auto broken = [&](absl::string_view rule) {
      return absl::DataLossError(absl::StrCat("the node at ", node.address, " of a B-tree ", rule));
    };
    if (!seen.insert(node.address).second) return broken("is there twice");
    CASK_ASSIGN_OR_RETURN(const std::string head, file->Read(node.address, head_bytes));
    Cursor in(head);
    if (in.Bytes(4) != "TREE") return broken("has not its signature");
    if (in.Uint(1) != static_cast<uint64_t>(kind)) return broken("is one of another kind");
    const auto level = static_cast<int>(in.Uint(1));
    if (node.level >= 0 && level != node.level) return broken("has a wrong level");
    const uint64_t count = in.Uint(2);
    // A key in front of each child, and one after all.
    CASK_ASSIGN_OR_RETURN(
        const std::string body,
        file->Read(node.address + head_bytes, count * (key_bytes + address_bytes) + (count > 0 ? key_bytes : 0)));
    Cursor children(body);
    std::vector<Node> below;
    for (uint64_t i = 0; i < count; ++i) {
      const absl::string_view key = children.Bytes(key_bytes);
      const uint64_t child = file->Address(&children);
      if (level == 0) {
        CASK_RETURN_IF_ERROR(leaf(key, child));
      } else {
        below.push_back({child, level - 1});
      }
    }
    nodes.insert(nodes.end(), below.rbegin(), below.rend());
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::hdf5
