// Tensors in groups by their names, which are paths: "encoder.layer.0.bias", "dense/kernel". A part of a name ends with
// its '.' or '/', as in the map of `tensorcask report`.
//
//   NameGroup group("a.b.x");          // of one tensor: its pattern is the name
//   group.Add("a.b.y", ...);           // a.b.*
//
// The pattern of a group is a shell pattern (tensor/base/glob.h) that commands take: `--exclude 'optimizer.*'`.

#ifndef TENSORCASK_TOOLS_NAME_GROUPS_H_
#define TENSORCASK_TOOLS_NAME_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask::tools {

// The first `parts` parts of `name`: "a.b." of "a.b.c" for 2; the whole name if it has no more.
absl::string_view FirstParts(absl::string_view name, size_t parts);
// The parts that both names begin with: "a.b." of "a.b.c" and "a.b.d".
absl::string_view CommonParts(absl::string_view a, absl::string_view b);

// Some tensors whose names begin with the same parts.
class NameGroup {
 public:
  // `type`: what `ls` says of the elements. Adds up to UINT64_MAX.
  void Add(absl::string_view name, absl::string_view type, uint64_t bytes);

  // The longest one for all names of the group; the name of a group of one tensor.
  std::string pattern() const;
  size_t tensors() const { return tensors_; }
  uint64_t bytes() const { return bytes_; }
  const std::set<std::string>& types() const { return types_; }

 private:
  std::string common_;  // what all names begin with, in whole parts
  size_t tensors_ = 0;
  uint64_t bytes_ = 0;
  std::set<std::string> types_;
};

// The few groups that show what is in a list of many tensors: those by the first part in which their names differ.
//
//   groups.Measure(name);    // each tensor
//   groups.Add(name, ...);   // each tensor again
//   for (const auto& [start, group] : groups.groups()) ...
//
// Keeps only a few groups, whatever the names.
class Overview {
 public:
  void Measure(absl::string_view name);
  void Add(absl::string_view name, absl::string_view type, uint64_t bytes);

  // By name; empty if there are few tensors, or so many groups that they show no more than the list.
  std::map<std::string, NameGroup> groups() const;

 private:
  std::optional<std::string> common_;
  std::map<std::string, NameGroup> groups_;
  size_t tensors_ = 0;
};

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_NAME_GROUPS_H_
