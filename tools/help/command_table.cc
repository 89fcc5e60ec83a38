#include "tensorcask/tools/help/command_table.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tensorcask::tools {
namespace {

// CLI11 describes the type of an option as "FORMAT", "N:INT in [1 - 9]" or "FORMAT:{checkpoint,records}".
void DescribeValue(const CLI::Option& option, Argument* argument) {
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');
  if (!option.get_positional() && option.get_items_expected_max() > 0) argument->value = type.substr(0, colon);
  if (colon == std::string::npos) return;
  absl::string_view rest = absl::string_view(type).substr(colon + 1);
  if (!absl::ConsumePrefix(&rest, "{") || !absl::ConsumeSuffix(&rest, "}")) return;
  argument->choices = absl::StrSplit(rest, ',');
}

Argument DescribeArgument(const CLI::Option& option) {
  Argument argument;
  const bool is_operand = option.get_positional();
  argument.name = option.get_single_name();
  if (!is_operand) argument.name = absl::StrCat(option.get_lnames().empty() ? "-" : "--", argument.name);
  if (!is_operand && !option.get_lnames().empty() && !option.get_snames().empty()) {
    argument.short_name = absl::StrCat("-", option.get_snames()[0]);
  }
  DescribeValue(option, &argument);
  if (is_operand) argument.label = option.get_option_text();
  argument.description = option.get_description();
  argument.is_required = option.get_required();
  argument.is_repeated = option.get_expected_max() > 1;
  return argument;
}

std::string UsageOf(const CLI::Option& operand) {
  const Argument argument = DescribeArgument(operand);
  const std::string text = absl::StrCat(argument.name, argument.is_repeated ? "..." : "");
  if (!argument.label.empty()) return argument.label;
  return argument.is_required ? text : absl::StrCat("[", text, "]");
}

}  // namespace

Command DescribeCommand(const CLI::App& app) {
  Command command;
  command.name = app.get_name();
  command.summary = app.get_description();
  std::vector<std::string> usage = {"[OPTIONS]"};
  for (const CLI::Option* const option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? command.operands : command.options).push_back(DescribeArgument(*option));
    if (option->get_positional()) usage.push_back(UsageOf(*option));
  }
  if (!app.get_subcommands({}).empty()) usage.emplace_back("SUBCOMMAND");
  command.usage = absl::StrJoin(usage, " ");
  command.notes = SplitParagraphs(app.get_footer());
  return command;
}

CommandTable DescribeCommands(const CLI::App& app) {
  CommandTable table;
  table.tool = DescribeCommand(app);
  for (const CLI::App* const subcommand : app.get_subcommands({})) {
    table.commands.push_back(DescribeCommand(*subcommand));
  }
  return table;
}

std::vector<Paragraph> SplitParagraphs(const std::string& text) {
  std::vector<Paragraph> paragraphs;
  bool continues = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty()) {
      continues = false;
      continue;
    }
    const bool verbatim = absl::StartsWith(line, " ");
    if (continues && paragraphs.back().verbatim == verbatim) {
      absl::StrAppend(&paragraphs.back().text, verbatim ? "\n" : " ", line);
    } else {
      paragraphs.push_back({std::string(line), verbatim});
    }
    continues = true;
  }
  return paragraphs;
}

std::vector<std::string> WrapText(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!lines.empty() && lines.back().size() + 1 + word.size() <= width) {
      absl::StrAppend(&lines.back(), " ", word);
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

}  // namespace tensorcask::tools
