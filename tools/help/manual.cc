#include "tensorcask/tools/help/manual.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/version.h"

namespace tensorcask::tools {
namespace {

constexpr size_t kMinWidth = 30;
constexpr size_t kManWidth = 78;  // of the source of the man page

// "-V, --version", "--format FORMAT", "GLOB...".
std::string Label(const Argument& argument) {
  if (!argument.label.empty()) return argument.label;
  return absl::StrCat(argument.short_name, argument.short_name.empty() ? "" : ", ", argument.name,
                      argument.value.empty() ? "" : " ", argument.value);
}

std::string WithChoices(const Argument& argument) {
  const bool are_described =
      std::all_of(argument.choices.begin(), argument.choices.end(),
                  [&](const std::string& choice) { return absl::StrContains(argument.description, choice); });
  if (are_described) return argument.description;
  return absl::StrCat(argument.description, " (", absl::StrJoin(argument.choices, ", "), ")");
}

// A label, and the text beside it, or below it where the label or the terminal leaves no room.
void AppendItem(const std::string& label, const std::string& text, size_t width, std::string* out) {
  constexpr size_t kColumn = 24;
  constexpr size_t kNarrow = 60;
  const size_t column = width < kNarrow ? 6 : kColumn;
  std::string line = absl::StrCat("  ", label);
  for (const std::string& part : WrapText(text, width - column)) {
    if (line.size() + 2 > column) {
      absl::StrAppend(out, line, "\n");
      line.clear();
    }
    line.append(column - line.size(), ' ');
    absl::StrAppend(out, line, part, "\n");
    line.clear();
  }
  if (!line.empty()) absl::StrAppend(out, line, "\n");
}

void AppendParagraphs(const std::vector<Paragraph>& paragraphs, size_t width, std::string* out) {
  bool after_heading = false;
  for (const Paragraph& paragraph : paragraphs) {
    if (!after_heading) absl::StrAppend(out, "\n");
    if (paragraph.verbatim) {
      absl::StrAppend(out, paragraph.text, "\n");
    } else {
      absl::StrAppend(out, absl::StrJoin(WrapText(paragraph.text, width), "\n"), "\n");
    }
    after_heading = !paragraph.verbatim && absl::EndsWith(paragraph.text, ":");
  }
}

// Text for troff: characters that it would read as commands or replace.
std::string Troff(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  return out;
}

void AppendTroff(const std::string& text, std::string* out) {
  for (const std::string& line : WrapText(text, kManWidth)) {
    absl::StrAppend(out, line[0] == '.' ? "\\&" : "", Troff(line), "\n");
  }
}

void AppendTroffItems(const std::vector<Argument>& arguments, std::string* out) {
  for (const Argument& argument : arguments) {
    absl::StrAppend(out, ".TP\n");
    if (!argument.short_name.empty()) absl::StrAppend(out, "\\fB", Troff(argument.short_name), "\\fR, ");
    const bool is_option = absl::StartsWith(argument.name, "-");
    absl::StrAppend(out, is_option ? "\\fB" : "\\fI", Troff(argument.label.empty() ? argument.name : argument.label),
                    "\\fR");
    if (!argument.value.empty()) absl::StrAppend(out, " \\fI", Troff(argument.value), "\\fR");
    absl::StrAppend(out, "\n");
    AppendTroff(WithChoices(argument), out);
  }
}

Argument Item(absl::string_view name, absl::string_view description) {
  Argument item;
  item.name = std::string(name);
  item.description = std::string(description);
  return item;
}

void AppendTroffParagraphs(const std::vector<Paragraph>& paragraphs, std::string* out) {
  for (const Paragraph& paragraph : paragraphs) {
    if (!paragraph.verbatim) {
      absl::StrAppend(out, ".PP\n");
      AppendTroff(paragraph.text, out);
      continue;
    }
    absl::StrAppend(out, ".PP\n.RS 4\n.nf\n");
    for (const absl::string_view line : absl::StrSplit(paragraph.text, '\n')) {
      const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
      absl::StrAppend(out, absl::StartsWith(text, ".") ? "\\&" : "", Troff(text), "\n");
    }
    absl::StrAppend(out, ".fi\n.RE\n");
  }
}

}  // namespace

std::string HelpText(const Command& command, const std::vector<Command>& subcommands, const std::string& program,
                     size_t width) {
  width = std::max(width, kMinWidth);
  std::string out = absl::StrCat("Usage: ", program, " ", command.usage, "\n\n",
                                 absl::StrJoin(WrapText(command.summary, width), "\n"), "\n");
  const auto append = [&](absl::string_view heading, const std::vector<Argument>& arguments) {
    if (!arguments.empty()) absl::StrAppend(&out, "\n", heading, ":\n");
    for (const Argument& argument : arguments) AppendItem(Label(argument), WithChoices(argument), width, &out);
  };
  append("Operands", command.operands);
  append("Options", command.options);
  if (!subcommands.empty()) absl::StrAppend(&out, "\nSubcommands:\n");
  for (const Command& one : subcommands) AppendItem(one.name, one.summary, width, &out);
  AppendParagraphs(command.notes, width, &out);
  return out;
}

std::string ManPage(const CommandTable& table) {
  std::string out = absl::StrCat(".\\\" Written by `tensorcask --print man`.\n.TH TENSORCASK 1 \"\" \"tensorcask ",
                                 CASK_VERSION_STRING, "\" \"User Commands\"\n");
  absl::StrAppend(&out, ".SH NAME\ntensorcask \\- read, check, compare and convert files of tensors\n",
                  ".SH SYNOPSIS\n\\fBtensorcask\\fR \\fISUBCOMMAND\\fR [\\fIOPTIONS\\fR] \\fIOPERANDS\\fR\n",
                  ".SH DESCRIPTION\n");
  AppendTroff(table.tool.summary, &out);
  AppendTroffParagraphs(table.tool.notes, &out);
  absl::StrAppend(&out, ".SH OPTIONS\n");
  AppendTroffItems(table.tool.options, &out);
  absl::StrAppend(&out, ".SH SUBCOMMANDS\n");
  for (const Command& command : table.commands) {
    absl::StrAppend(&out, ".SS \"tensorcask ", command.name, " ", Troff(command.usage), "\"\n");
    AppendTroff(absl::StrCat(command.summary, "."), &out);
    AppendTroffItems(command.operands, &out);
    AppendTroffItems(command.options, &out);
    AppendTroffParagraphs(command.notes, &out);
  }
  absl::StrAppend(&out, ".SH EXIT STATUS\n");
  const std::vector<Argument> statuses = {Item("0", "The command did what it was asked to."),
                                          Item("1", "The command failed, a file is damaged, or files differ."),
                                          Item("2", "The command line is wrong."),
                                          Item("128 + N", "Signal N ended the command. It left no half-written file.")};
  AppendTroffItems(statuses, &out);
  absl::StrAppend(&out, ".SH ENVIRONMENT\n");
  const std::vector<Argument> variables = {
      Item("TERM", "If it is dumb, no progress is shown."),
      Item("COLUMNS", "The width of the help, if standard output is not a terminal."),
      Item("NO_COLOR", "Has no effect: the output has no colors."),
      Item("AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL, ...",
           "The keys, region and server of s3:// names, as in other programs."),
      Item("AWS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE",
           "A file (PEM) of trusted authorities, for s3:// and https:// names. The first that is set counts."),
      Item("http_proxy, https_proxy, all_proxy, no_proxy", "Proxies for these names, as curl reads them."),
      Item("TENSORCASK_GRPC_CA, TENSORCASK_GRPC_CERTIFICATE, TENSORCASK_GRPC_KEY, TENSORCASK_GRPC_TOKEN_FILE",
           "The files with the authorities, the certificate and key, and the token of a client of grpcs://."),
      Item("TENSORCASK_CPU", "avx512, avx2, sse42 or none: the newest instructions that are used.")};
  AppendTroffItems(variables, &out);
  return out;
}

}  // namespace tensorcask::tools
