// Shell patterns for names of tensors (tensor/base/glob.h) that may be names themselves, such as "x[0]": a pattern
// without '*' and '?' that is the name of a tensor matches this name alone, and not "x0", too.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_CHOSEN_NAMES_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_CHOSEN_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/values/value.h"

namespace tensorcask::archive {

// The patterns, of which those that are the name of one of `entries` are made to match this name alone. Requires:
// `entries` are sorted by name.
std::vector<std::string> NamesFirst(std::vector<std::string> globs, const std::vector<ArchiveEntry>& entries);

// Which names some patterns choose. A walk over the values of a small file may come to many long names: there is a
// limit for the bytes of names that the patterns look at.
class NameChooser {
 public:
  // Chosen is what `include` matches, or everything if it is empty, without what `exclude` matches.
  NameChooser(std::vector<std::string> include, std::vector<std::string> exclude, uint64_t max_bytes);
  // The limit for the values of `tree`: many times what the names of a usual tree have.
  static uint64_t MaxBytesFor(const ValueTree& tree);

  // Errors: ResourceExhausted past the limit, and for a name that is cut, if there are patterns.
  absl::StatusOr<bool> IsChosen(absl::string_view name, bool is_cut = false);

 private:
  absl::StatusOr<bool> MatchesAny(const std::vector<std::string>& globs, absl::string_view name);

  const std::vector<std::string> include_;
  const std::vector<std::string> exclude_;
  uint64_t bytes_left_;
};

// The rule of NamesFirst for a stream, whose names come one after the other and are not read twice.
//
//   StreamedGlob glob("x[0]");
//   glob.Matches("x0");    // true: no tensor is called "x[0]" so far
//   glob.Matches("x[0]");  // an error: the answer for "x0" was wrong
class StreamedGlob {
 public:
  explicit StreamedGlob(std::string glob);

  // Whether the pattern chooses the next tensor. Errors: InvalidArgument if it is the name of this tensor and has
  // matched others as a pattern.
  absl::StatusOr<bool> Matches(const std::string& name);

  const std::string& glob() const { return glob_; }
  bool has_matched() const { return is_name_ || matched_.has_value(); }

 private:
  std::string glob_;
  bool may_be_name_;                    // other than by being a pattern that matches only itself
  bool is_name_ = false;                // it is the name of a tensor that came
  std::optional<std::string> matched_;  // the first other name that matched
};

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_CHOSEN_NAMES_H_
