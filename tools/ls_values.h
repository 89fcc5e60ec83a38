// tensorcask ls --values: what a file keeps beside its tensors.

#ifndef TENSORCASK_TOOLS_LS_VALUES_H_
#define TENSORCASK_TOOLS_LS_VALUES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/tools/output/console.h"

namespace tensorcask::tools {

// Prints the values of `input`, which the user called `path`, and its metadata beside them: one line each, shortened,
// or as a JSON document. In lines, names are cut after 1 KiB. Tensors, which `ls` lists, have no lines, but stay in the
// document. With `globs`, only those whose names match, whole, with the elements of arrays that are in the file.
// Errors: Misuse if one of `globs` matches no value; ResourceExhausted for a tree of too many values, or of names that
// are too long for the patterns or the document.
absl::StatusOr<ExitCode> PrintValues(const ArchiveReader& input, const std::string& path,
                                     const std::vector<std::string>& globs, bool json, Console& console);

// "values: epoch=3, lr=0.001, 7 more (ls --values)\n": the first values, for the end of a list of tensors. "" if there
// are none, or they cannot be read.
std::string ValuesInALine(const ArchiveReader& input);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_LS_VALUES_H_
