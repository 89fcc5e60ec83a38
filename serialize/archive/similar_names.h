// "; did you mean "dense/kernel"?", "; 12 names contain it: "conv2d/bias", "conv2d/kernel", ...": hints for a name that
// was not found, and for a pattern that matches nothing.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_SIMILAR_NAMES_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_SIMILAR_NAMES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask::archive {

// The hint with the most similar one of `names`, or else with those that contain the name; "" if there is no such name.
// Looks at 100,000 names at most.
std::string DidYouMean(absl::string_view name, absl::Span<const absl::string_view> names);

// The same for a shell pattern (tensor/base/glob.h) that matches none of `names`: "; did you mean "dense/kernel"?", or
// the pattern that finds the names with its longest part: "; "*conv2d*" matches 12: "conv2d/bias", ...".
std::string HintForPattern(absl::string_view glob, absl::Span<const absl::string_view> names);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_SIMILAR_NAMES_H_
