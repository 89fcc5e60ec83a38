// Programs that stand beside this one, have the same commands, and are linked with one library more.

#ifndef TENSORCASK_TOOLS_SIBLINGS_SIBLING_PROGRAM_H_
#define TENSORCASK_TOOLS_SIBLINGS_SIBLING_PROGRAM_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorcask::tools {

// Runs `program`, from the folder of this program or PATH, in place of this process, with the same arguments.
// Returns only errors: NotFound, with "WHAT need the program PROGRAM, ..." and the sentence `how_to_get`, if there is
// none.
absl::Status RunSiblingProgram(const char* program, absl::string_view what, absl::string_view how_to_get, char** argv);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_SIBLINGS_SIBLING_PROGRAM_H_
