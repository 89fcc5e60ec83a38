// The command line tool: the table of subcommands, and the exit code for each result.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <new>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/similar_names.h"
#include "tensorcask/tensor/version.h"
#include "tensorcask/tools/formats_page.h"
#include "tensorcask/tools/help/command_table.h"
#include "tensorcask/tools/help/completions.h"
#include "tensorcask/tools/help/manual.h"
#include "tensorcask/tools/output/console.h"
#include "tensorcask/tools/output/table.h"
#include "tensorcask/tools/siblings/job_tools.h"
#include "tensorcask/tools/siblings/remote_tools.h"
#include "tensorcask/tools/subcommand.h"
#include "tensorcask/tools/tool_files.h"

namespace tensorcask::tools {
namespace {

struct Entry {
  const char* name;
  const char* summary;
  Action (*declare)(CLI::App& app);
};

constexpr Entry kSubcommands[] = {
    {"ls", "List the tensors of a file", DeclareLs},
    {"show", "Print the values of a tensor", DeclareShow},
    {"stats", "Range, mean, spread and NaN, infinite and subnormal elements of each tensor", DeclareStats},
    {"diff", "What differs between two files", DeclareDiff},
    {"report", "A page that shows a file, what differs between two, or a run", DeclareReport},
    {"browse", "The same page in a browser, with the elements of each tensor", DeclareBrowse},
    {"verify", "Check every checksum and rule of structure", DeclareVerify},
    {"salvage", "Save the undamaged tensors of a damaged file", DeclareSalvage},
    {"convert", "Copy tensors into another file or format", DeclareConvert},
    {"merge", "Join checkpoints without reading their elements", DeclareMerge},
    {"reshard", "Write a checkpoint in the pieces that the processes of a job want", DeclareReshard},
    {"edit", "Change names and metadata of a file, not its elements", DeclareEdit},
    {"clean", "Find the temporary files that killed writers left", DeclareClean},
    {"cat", "Write tensors to a pipe as records", DeclareCat},
    {"save", "Save records from a pipe to a file", DeclareSave},
    {"send", "Send tensors to a waiting recv", DeclareSend},
    {"recv", "Receive tensors from a send", DeclareRecv},
    {"serve", "Serve the tensors of files on a socket", DeclareServe},
    {"demo", "Save, verify, list and read back a small model", DeclareDemo},
};

// The library returns ResourceExhausted if it cannot allocate memory for elements. Smaller allocations throw.
absl::StatusOr<ExitCode> RunAction(const Action& action, Console& console) {
  try {
    return action(console);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::system_error& error) {  // of std::thread
    return absl::ResourceExhaustedError(error.what());
  }
}

// What CLI11 would take apart gets a NUL byte at its end, which no argument can have. UnguardValues makes each option
// remove it again. An operand in brackets is a list for CLI11: `[ab]` becomes `ab`, and `[a,b]` becomes two operands;
// version 2.6 also reads values of options so: `--exclude=[ab]`. For an empty value, `--exclude=`, it takes the next
// argument.
std::vector<std::string> WithGuardedValues(absl::Span<const std::string> arguments) {
  std::vector<std::string> backwards;  // the order that CLI11 expects
  for (size_t i = arguments.size(); i-- > 0;) {
    std::string argument = arguments[i];
    const bool empty_value = absl::StartsWith(argument, "--") && argument.find('=') + 1 == argument.size();
    if (absl::EndsWith(argument, "]") || empty_value) argument += '\0';
    backwards.push_back(std::move(argument));
  }
  return backwards;
}

void UnguardValues(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    option->transform([](std::string text) {
      if (!text.empty() && text.back() == '\0') text.pop_back();
      return text;
    });
  }
}

// Prints the requested help, or the error in the arguments, which it quotes as they were typed.
int ExitOf(const CLI::App& app, const CLI::ParseError& error, absl::string_view where, absl::string_view hint,
           Console& console) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = app.exit(error, out, err);
  console.out << out.str();
  if (code == 0) return kDone;
  std::string message = error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  message.erase(std::remove(message.begin(), message.end(), '\0'), message.end());  // guards
  console.err << where << ": " << EscapeControls(message) << EscapeControls(hint) << "; see " << where << " --help\n";
  return kMisused;
}

bool IsSubcommand(absl::string_view word) {
  return std::any_of(std::begin(kSubcommands), std::end(kSubcommands),
                     [&](const Entry& entry) { return entry.name == word; });
}

bool IsOption(const CLI::App& app, absl::string_view word) {
  const std::vector<const CLI::Option*> options = app.get_options();
  return std::any_of(options.begin(), options.end(),
                     [&](const CLI::Option* option) { return option->check_name(std::string(word)); });
}

// Words of other tools, and the subcommand that does the same.
struct Synonym {
  absl::string_view word;
  const char* subcommand;
};
constexpr Synonym kSynonyms[] = {
    {"list", "ls"},        {"dir", "ls"},          {"info", "ls"},         {"inspect", "ls"},
    {"print", "show"},     {"view", "show"},       {"dump", "show"},       {"get", "show"},
    {"summary", "stats"},  {"describe", "stats"},  {"compare", "diff"},    {"cmp", "diff"},
    {"check", "verify"},   {"validate", "verify"}, {"fsck", "verify"},     {"test", "verify"},
    {"repair", "salvage"}, {"recover", "salvage"}, {"restore", "salvage"}, {"copy", "convert"},
    {"cp", "convert"},     {"join", "merge"},      {"combine", "merge"},   {"split", "reshard"},
    {"shard", "reshard"},  {"export", "convert"},  {"import", "convert"},  {"compress", "convert"},
    {"slice", "show"},     {"rename", "edit"},     {"mv", "edit"},         {"rm", "edit"},
    {"remove", "edit"},    {"delete", "edit"},     {"set", "edit"},        {"gc", "clean"},
    {"cleanup", "clean"},  {"prune", "clean"},     {"receive", "recv"},    {"server", "serve"},
    {"listen", "serve"},   {"example", "demo"},    {"tour", "demo"},       {"html", "report"},
    {"explore", "browse"}, {"plot", "report"},     {"draw", "report"},
};

// "; did you mean "convert"?" for a misspelled subcommand, or for a word that other tools use.
std::string SimilarSubcommand(absl::string_view word) {
  for (const Synonym& synonym : kSynonyms) {
    if (word == synonym.word) return absl::StrCat("; did you mean \"", synonym.subcommand, "\"?");
  }
  std::vector<absl::string_view> names;
  for (const Entry& entry : kSubcommands) names.push_back(entry.name);
  return archive::DidYouMean(word, names);
}

// The same for the first unknown option among the arguments.
std::string SimilarOption(const CLI::App& app, absl::Span<const std::string> arguments) {
  std::vector<std::string> known;
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::vector<absl::string_view> names(known.begin(), known.end());
  for (const std::string& argument : arguments) {
    const std::string word = argument.substr(0, argument.find('='));
    if (!absl::StartsWith(word, "--") || word.size() == 2) continue;
    if (std::find(known.begin(), known.end(), word) == known.end()) return archive::DidYouMean(word, names);
  }
  return "";
}

// The arguments with `help` and `help SUBCOMMAND` as --help.
std::vector<std::string> WithHelp(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty() || arguments[0] != "help") return arguments;
  arguments.erase(arguments.begin());
  arguments.resize(std::min<size_t>(arguments.size(), 1));
  arguments.push_back("--help");
  return arguments;
}

// The width of the help: that of the terminal, at most 100.
size_t HelpWidth() {
  constexpr size_t kDefault = 80;
  constexpr size_t kMost = 100;
  const char* const columns = std::getenv("COLUMNS");
  size_t width = OutputWidth();
  if (width == 0 && (columns == nullptr || !absl::SimpleAtoi(columns, &width))) width = kDefault;
  return std::min(width == 0 ? kDefault : width, kMost);
}

std::string Help(const CLI::App* app, const std::string& /*name*/, CLI::AppFormatMode /*mode*/) {
  const bool is_tool = app->get_parent() == nullptr;
  return HelpText(DescribeCommand(*app), DescribeCommands(*app).commands,
                  is_tool ? "tensorcask" : absl::StrCat("tensorcask ", app->get_name()), HelpWidth());
}

void DeclareTool(CLI::App& app) {
  app.require_subcommand(1);
  app.formatter_fn(Help);
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag("-V,--version", "tensorcask " CASK_VERSION_STRING, "Print the version");
  app.footer(
      "PATH is the prefix or .index file of a checkpoint, another file, a folder that holds one of them, - for records "
      "on standard input, or unix:SOCKET or grpc://HOST:PORT of a serve. s3://BUCKET/KEY is an object of a store, "
      "which is read and "
      "written, "
      "with the keys, region and endpoint of the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_REGION, "
      "AWS_ENDPOINT_URL); https://HOST/PATH is only read. The tool recognizes the format by content; where content "
      "cannot "
      "tell, the extension or --format names it. The extension of DST names the format to write: without an "
      "extension, and for .ckpt, it is a checkpoint; an extension that the tool does not know needs --to.\n\n"
      "A GLOB is a pattern of the shell for names of tensors: * matches any text, ? one character, [a-z] one of a "
      "range, [!a-z] one that is not in it. Put it in quotes. A GLOB without * and ? that is the name of a tensor, "
      "such "
      "as x[0], means this tensor alone. Names with spaces or control characters are printed in double quotes with "
      "escapes; show "
      "and --rename take them that way, too.\n\n"
      "Results go to standard output, messages and progress to standard error. Exit status: 0 done, 1 failed, damaged "
      "or different, 2 misused.\n\n"
      "Start here:\n"
      "  tensorcask demo                 a tour in one command\n"
      "  tensorcask ls model.ckpt        what is in a checkpoint\n"
      "  tensorcask help SUBCOMMAND      options and an example of each");
}

// `--print man` and the like, for packagers; tools/dev manual writes the files in the tree with it.
absl::Status PrintGenerated(const CLI::App& app, const std::string& what, Console& console) {
  const CommandTable table = DescribeCommands(app);
  if (what == "man") {
    console.out << ManPage(table);
  } else if (what == "bash") {
    console.out << BashCompletion(table);
  } else if (what == "zsh") {
    console.out << ZshCompletion(table);
  } else if (what == "fish") {
    console.out << FishCompletion(table);
  } else if (what == "formats") {
    console.out << FormatsPage();
  } else {
    return Misuse(absl::StrCat("--print ", what, ": wanted man, bash, zsh, fish or formats"));
  }
  return absl::OkStatus();
}

// Prints the error of a command line that could not be parsed, or the help that it asks for.
int ReportParseError(const CLI::App& app, absl::Span<const std::string> arguments, const CLI::ParseError& error,
                     Console& console) {
  const CLI::App* meant = &app;
  std::string where = "tensorcask";
  if (!arguments.empty() && IsSubcommand(arguments[0])) {
    meant = app.get_subcommand(arguments[0]);
    where = absl::StrCat("tensorcask ", arguments[0]);
  }
  return ExitOf(app, error, where, SimilarOption(*meant, arguments), console);
}

int RunCommand(absl::Span<const std::string> arguments, Console& console) {
  CLI::App app("Reads, checks and writes files of tensors. Safe with files from untrusted sources.", "tensorcask");
  DeclareTool(app);
  const absl::Status opened = OpenStores(arguments);  // before the commands set their options
  std::vector<std::pair<CLI::App*, Action>> actions;
  bool shows_requests = false;
  for (const Entry& entry : kSubcommands) {
    CLI::App* subcommand = app.add_subcommand(entry.name, entry.summary);
    actions.emplace_back(subcommand, entry.declare(*subcommand));
    subcommand->add_flag("--stats", shows_requests,
                         "Say on standard error which requests to s3:// and https:// it took");
    UnguardValues(*subcommand);
  }
  if (arguments.size() == 2 && arguments[0] == "--print") {
    const absl::Status status = PrintGenerated(app, arguments[1], console);
    if (!status.ok()) console.err << "tensorcask: " << EscapeControls(status.message()) << '\n';
    return status.ok() ? kDone : kMisused;
  }
  const std::string first = arguments.empty() ? "" : arguments[0];
  if (!first.empty() && !IsSubcommand(first) && !IsOption(app, first)) {
    const bool is_option = absl::StartsWith(first, "-");
    console.err << "tensorcask: there is no " << (is_option ? "option " : "subcommand ") << Printable(first)
                << (is_option ? SimilarOption(app, arguments) : SimilarSubcommand(first))
                << "; see tensorcask --help\n";
    return kMisused;
  }
  try {  // CLI11 reports through exceptions
    app.parse(WithGuardedValues(arguments));
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, arguments, error, console);
  }

  for (const auto& [subcommand, action] : actions) {
    if (!subcommand->parsed()) continue;
    const absl::StatusOr<ExitCode> code = opened.ok() ? RunAction(action, console) : opened;
    if (shows_requests) console.err << RequestStats() << '\n';
    CloseStores();
    if (!code.ok()) {
      const std::string& name = subcommand->get_name();
      const bool has_flag = subcommand->get_option_no_throw("--ignore-checksums") != nullptr;
      // salvage has done what it can, and save reads a pipe.
      std::string advice = name == "salvage" || name == "save" ? "" : DamageAdvice(code.status(), has_flag);
      if (subcommand->get_option_no_throw("--format") != nullptr) advice += LimitAdvice(code.status());
      console.err << "tensorcask " << name << ": " << EscapeControls(code.status().message())
                  << (advice.empty() ? "" : "; ") << advice << '\n';
      return IsMisuse(code.status()) ? kMisused : kFound;
    }
    return *code;
  }
  return kMisused;
}

// Writes what is left of the output. Exits with `code` unless that fails: the disk may be full, for example. A reader
// that has gone (`| head`) has what it wanted, so nothing is printed.
int FinishOutput(Console& console, const OutputBuffer& buffer, int code) {
  console.out.flush();
  if (buffer.error() == 0) return code;
  if (buffer.error() == EPIPE) return kReaderGone;
  console.err << "tensorcask: cannot write to stdout: " << std::strerror(buffer.error()) << '\n';
  return code == kDone ? kFound : code;
}

// A dumb terminal cannot erase a line.
bool ShowsProgress() {
  const char* const term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (term == nullptr || absl::string_view(term) != "dumb");
}

int Run(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed stdout is an error of writing
  std::signal(SIGXFSZ, SIG_IGN);  // and so is a file past the limit of the process (ulimit -f)
  OutputBuffer buffer;
  std::ostream out(&buffer);
  Console console{out, std::cerr, ShowsProgress()};
  const std::vector<std::string> arguments = WithHelp(argc, argv);
  SetRemoteTools(LinkedRemoteTools());
  SetJobTools(LinkedJobTools());
  absl::Status sibling;  // these calls return only if there is none
  if (GetRemoteTools() == nullptr && NeedsRemoteTools(arguments)) sibling = RunRemoteProgram(argv);
  if (GetJobTools() == nullptr && RunsInJob(arguments)) sibling = RunJobProgram(argv);
  if (!sibling.ok()) {
    console.err << "tensorcask: " << EscapeControls(sibling.message()) << '\n';
    return kFound;
  }
  return FinishOutput(console, buffer, RunCommand(arguments, console));
}

}  // namespace
}  // namespace tensorcask::tools

int main(int argc, char** argv) { return tensorcask::tools::Run(argc, argv); }
