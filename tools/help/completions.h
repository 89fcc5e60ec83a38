// Completion of the command line in shells, written from the table of subcommands: subcommands, options, the values of
// options, files, and the names of tensors.

#ifndef TENSORCASK_TOOLS_HELP_COMPLETIONS_H_
#define TENSORCASK_TOOLS_HELP_COMPLETIONS_H_

#include <string>

#include "tensorcask/tools/help/command_table.h"

namespace tensorcask::tools {

std::string BashCompletion(const CommandTable& table);
std::string ZshCompletion(const CommandTable& table);
std::string FishCompletion(const CommandTable& table);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_HELP_COMPLETIONS_H_
