// Nodes of maps that are allocated before they are needed.

#ifndef TENSORCASK_TENSOR_MEMORY_INTERNAL_MAKE_NODE_H_
#define TENSORCASK_TENSOR_MEMORY_INTERNAL_MAKE_NODE_H_

#include <cstddef>

namespace tensorcask::internal {

// Makes room in `map`, a std::unordered_map: if a node is inserted next, that allocates nothing.
template <typename Map>
void ReserveNode(Map& map) {
  const size_t num_nodes = map.size() + 1;
  // An empty map of libstdc++ has one bucket, and yet makes others for its first node.
  if (static_cast<float>(num_nodes) >= map.max_load_factor() * static_cast<float>(map.bucket_count()))
    map.reserve(2 * num_nodes);
}

// A node for `map`, which has room for it afterwards. The caller sets its key.
template <typename Map>
typename Map::node_type MakeNode(Map& map) {
  ReserveNode(map);
  Map one;
  one.try_emplace(typename Map::key_type());
  return one.extract(one.begin());
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_MEMORY_INTERNAL_MAKE_NODE_H_
