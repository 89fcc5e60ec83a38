// The subcommands with their operands and options, as the parser of the command line (CLI11) knows them. The help, the
// man page and the completions of shells are written from this table, so that they cannot differ from the parser.

#ifndef TENSORCASK_TOOLS_HELP_COMMAND_TABLE_H_
#define TENSORCASK_TOOLS_HELP_COMMAND_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace tensorcask::tools {

// An operand (PATH) or an option (--format FORMAT).
struct Argument {
  std::string name;                  // "PATH", "--format"
  std::string label;                 // of an operand in the help: "SRC... DST"; "": name
  std::string short_name;            // "-V"; "": none
  std::string value;                 // what follows an option: "FORMAT"; "" for operands and flags
  std::vector<std::string> choices;  // the values that are allowed; empty: any
  std::string description;
  bool is_required = false;
  bool is_repeated = false;
};

// Text of the help. `verbatim` text keeps its lines; other text is one line, which a writer may wrap.
struct Paragraph {
  std::string text;
  bool verbatim = false;
};

struct Command {
  std::string name;     // "ls"
  std::string summary;  // "List the tensors of a file"
  std::string usage;    // "[OPTIONS] PATH [GLOB...]"
  std::vector<Argument> operands;
  std::vector<Argument> options;
  std::vector<Paragraph> notes;  // of the footer
};

struct CommandTable {
  Command tool;  // the program without a subcommand
  std::vector<Command> commands;
};

Command DescribeCommand(const CLI::App& app);
CommandTable DescribeCommands(const CLI::App& app);

// Paragraphs are separated by empty lines. Lines that begin with a space are verbatim; other lines are joined.
std::vector<Paragraph> SplitParagraphs(const std::string& text);

// `text` in lines of at most `width` characters, broken at spaces. Longer words stay whole.
std::vector<std::string> WrapText(const std::string& text, size_t width);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_HELP_COMMAND_TABLE_H_
