// "; did you mean "dense/kernel"?", "; 12 names contain it: "conv2d/bias", "conv2d/kernel", ...": a hint for a name
// that was not found.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_SIMILAR_NAMES_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_SIMILAR_NAMES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask::archive {

// The hint with the most similar one of `names`, or else with those that contain the name; "" if there is no such name.
// Looks at 100,000 names at most.
std::string DidYouMean(absl::string_view name, absl::Span<const absl::string_view> names);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_SIMILAR_NAMES_H_
