// The page docs/formats.md: every format of the tool in a table, written from the list of formats.

#ifndef TENSORCASK_TOOLS_FORMATS_PAGE_H_
#define TENSORCASK_TOOLS_FORMATS_PAGE_H_

#include <string>

namespace tensorcask::tools {

std::string FormatsPage();

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_FORMATS_PAGE_H_
