// What a copy does not get, as commands print it.

#ifndef TENSORCASK_TOOLS_OUTPUT_LOSS_LINES_H_
#define TENSORCASK_TOOLS_OUTPUT_LOSS_LINES_H_

#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/tools/output/console.h"

namespace tensorcask::tools {

// A line "lost: ..." for each loss of the plan, or "copied: ...", "converted: ...".
void PrintLosses(const ConversionPlan& plan, Console& console);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_OUTPUT_LOSS_LINES_H_
