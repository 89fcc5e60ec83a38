// The help of the tool and its man page, written from the table of subcommands.

#ifndef TENSORCASK_TOOLS_HELP_MANUAL_H_
#define TENSORCASK_TOOLS_HELP_MANUAL_H_

#include <cstddef>
#include <string>

#include "tensorcask/tools/help/command_table.h"

namespace tensorcask::tools {

// The help of one subcommand, or of the tool with `subcommands`. `program` is what the user types: "tensorcask ls".
std::string HelpText(const Command& command, const std::vector<Command>& subcommands, const std::string& program,
                     size_t width);

// A page of section 1 for man, in the macros of man(7).
std::string ManPage(const CommandTable& table);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_HELP_MANUAL_H_
