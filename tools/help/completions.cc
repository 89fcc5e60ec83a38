#include "tensorcask/tools/help/completions.h"

#include <cstddef>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace tensorcask::tools {
namespace {

// What can stand in the place of an operand or of the value of an option.
enum class Kind { kFile, kFolder, kTensor, kChoice, kText };

Kind KindOf(const Argument& argument) {
  if (!argument.choices.empty()) return Kind::kChoice;
  const std::string& what = argument.value.empty() ? argument.name : argument.value;
  for (const char* file : {"PATH", "SRC", "DST", "A", "B", "SOCKET", "FILE"}) {
    if (what == file) return Kind::kFile;
  }
  if (what == "FOLDER") return Kind::kFolder;
  if (what == "NAME" || what == "GLOB") return Kind::kTensor;
  return Kind::kText;
}

// In single quotes, for all three shells. (No text of the table has a newline.)
std::string ShellQuoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::string Words(const std::vector<Argument>& arguments) {
  std::string words;
  for (const Argument& argument : arguments) {
    absl::StrAppend(&words, words.empty() ? "" : " ", argument.name);
    if (!argument.short_name.empty()) absl::StrAppend(&words, " ", argument.short_name);
  }
  return words;
}

std::string Names(const CommandTable& table) {
  return absl::StrJoin(table.commands, " ",
                       [](std::string* out, const Command& command) { absl::StrAppend(out, command.name); });
}

// ---- bash -----------------------------------------------------------------------------------------------------------

std::string BashKind(const Argument& argument) {
  switch (KindOf(argument)) {
    case Kind::kFile:
      return "@file";
    case Kind::kFolder:
      return "@folder";
    case Kind::kTensor:
      return "@tensor";
    case Kind::kChoice:
      return absl::StrJoin(argument.choices, " ");
    case Kind::kText:
      break;
  }
  return "@text";
}

constexpr char kBashFunctions[] = R"bash(
# Files. A checkpoint is offered by its prefix, which is the name of its index without ".index".
_tensorcask_files() {
  local path
  compopt -o filenames 2>/dev/null
  while IFS= read -r path; do
    [[ "$path" == *.data-[0-9][0-9][0-9][0-9][0-9]-of-* ]] || COMPREPLY+=("${path%.index}")
  done < <(compgen "$1" -- "$2")
}

# The names of the tensors in the file that the command line names first.
_tensorcask_tensors() {
  local name
  [[ -n "$2" ]] || return
  while IFS= read -r name; do
    [[ "$name" == "$1"* ]] && COMPREPLY+=("$name")
  done < <("$_tensorcask_program" ls "$2" 2>/dev/null | head -n 10000 | sed -n -e '/^total: /d' -e 's/^\([^" ]*\) .*/\1/p')
}

_tensorcask_values() {
  case "$1" in
    @file) _tensorcask_files -f "$2" ;;
    @folder) _tensorcask_files -d "$2" ;;
    @tensor) _tensorcask_tensors "$2" "$3" ;;
    @text) ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2") ;;
  esac
}

_tensorcask() {
  local _tensorcask_program="$1" words=() word i
  COMPREPLY=()
  # bash splits "--format=npz" into three words.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ "${COMP_WORDS[i]}" == = ]] || words+=("${COMP_WORDS[i]}")
  done
  word="${COMP_WORDS[COMP_CWORD]}"
  [[ "$word" == = ]] && word=""
  local command="${words[0]:-}"
  if ((${#words[@]} == 0)) || [[ "$command" == help ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_tensorcask_options "")" -- "$word")
    return
  fi
  local operands=() expected="" previous=""
  for ((i = 1; i < ${#words[@]}; ++i)); do
    if [[ -n "$previous" && -n "$(_tensorcask_value "$command" "$previous")" ]]; then
      previous=""
      continue
    fi
    previous=""
    if [[ "${words[i]}" == -* ]]; then previous="${words[i]}"; else operands+=("${words[i]}"); fi
  done
  [[ -n "$previous" ]] && expected="$(_tensorcask_value "$command" "$previous")"
  if [[ -n "$expected" ]]; then
    _tensorcask_values "$expected" "$word" "${operands[0]:-}"
  elif [[ "$word" == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_tensorcask_options "$command")" -- "$word")
  else
    local kinds=()
    read -r -a kinds <<< "$(_tensorcask_operands "$command")"
    ((${#kinds[@]})) || return
    i=$((${#operands[@]} < ${#kinds[@]} ? ${#operands[@]} : ${#kinds[@]} - 1))
    _tensorcask_values "${kinds[i]}" "$word" "${operands[0]:-}"
  fi
}

complete -F _tensorcask tensorcask
)bash";

// ---- zsh ------------------------------------------------------------------------------------------------------------

std::string ZshText(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string ZshAction(const Argument& argument) {
  switch (KindOf(argument)) {
    case Kind::kFile:
      return "_tensorcask_files";
    case Kind::kFolder:
      return "_directories";
    case Kind::kTensor:
      return "_tensorcask_tensors";
    case Kind::kChoice:
      return absl::StrCat("(", absl::StrJoin(argument.choices, " "), ")");
    case Kind::kText:
      break;
  }
  return " ";
}

std::string ZshOption(const Argument& option, const std::string& name) {
  std::string spec = absl::StrCat(option.is_repeated ? "*" : "", name);
  if (!option.value.empty()) absl::StrAppend(&spec, absl::StartsWith(name, "--") ? "=" : "");
  absl::StrAppend(&spec, "[", ZshText(option.description), "]");
  if (!option.value.empty()) absl::StrAppend(&spec, ":", ZshText(option.value), ":", ZshAction(option));
  return ShellQuoted(spec);
}

constexpr char kZshFunctions[] = R"zsh(
# Files. A checkpoint is offered by its prefix, which is the name of its index without ".index".
_tensorcask_files() {
  local -a prefixes
  prefixes=(${~PREFIX}*.index(N:r))
  (( $#prefixes )) && compadd -f -- $prefixes
  _files -F '*.index' -F '*.data-<->-of-<->'
}

# The names of the tensors in the file that the command line names first.
_tensorcask_tensors() {
  local -a names
  local word
  for word in ${words[2,-1]}; do
    [[ $word == -* ]] && continue
    names=(${(f)"$(tensorcask ls ${(Q)word} 2>/dev/null | head -n 10000 |
      sed -n -e '/^total: /d' -e 's/^\([^" ]*\) .*/\1/p')"})
    (( $#names )) && compadd -- $names && return
  done
}
)zsh";

// ---- fish -----------------------------------------------------------------------------------------------------------

// In fish a backslash escapes a quote, or itself, between single quotes.
std::string FishQuoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string FishOption(const Argument& option) {
  std::string line;
  if (absl::StartsWith(option.name, "--")) absl::StrAppend(&line, " -l ", option.name.substr(2));
  if (!option.short_name.empty()) absl::StrAppend(&line, " -s ", option.short_name.substr(1));
  switch (KindOf(option)) {
    case Kind::kChoice:
      absl::StrAppend(&line, " -x -a ", FishQuoted(absl::StrJoin(option.choices, " ")));
      break;
    case Kind::kFile:
    case Kind::kFolder:
      absl::StrAppend(&line, " -r -F");
      break;
    case Kind::kTensor:
      absl::StrAppend(&line, " -x -a '(__tensorcask_tensors)'");
      break;
    case Kind::kText:
      absl::StrAppend(&line, option.value.empty() ? "" : " -x");
      break;
  }
  return absl::StrCat(line, " -d ", FishQuoted(option.description));
}

constexpr char kFishFunctions[] = R"fish(
# The names of the tensors in the file that the command line names first.
function __tensorcask_tensors
    for word in (commandline -opc)[3..-1]
        string match -q -- '-*' $word; and continue
        set -l names (tensorcask ls $word 2>/dev/null | head -n 10000 | string match -v 'total: *' |
            string match -r '^[^" ]+')
        if set -q names[1]
            printf '%s\n' $names
            return
        end
    end
end

complete -c tensorcask -n __fish_use_subcommand -f
)fish";

}  // namespace

std::string BashCompletion(const CommandTable& table) {
  std::string out = "# Completion of tensorcask for bash. Written by `tensorcask --print bash`.\n\n";
  absl::StrAppend(&out, "# Subcommands and options of the tool, or options of a subcommand.\n_tensorcask_options() {\n",
                  "  case \"$1\" in\n    '') echo ",
                  ShellQuoted(absl::StrCat(Names(table), " help ", Words(table.tool.options))), " ;;\n");
  for (const Command& command : table.commands) {
    absl::StrAppend(&out, "    ", command.name, ") echo ", ShellQuoted(Words(command.options)), " ;;\n");
  }
  absl::StrAppend(&out, "  esac\n}\n\n# What each operand of a subcommand is; further ones are as the last.\n",
                  "_tensorcask_operands() {\n  case \"$1\" in\n");
  for (const Command& command : table.commands) {
    const std::string kinds = absl::StrJoin(command.operands, " ", [](std::string* text, const Argument& operand) {
      absl::StrAppend(text, BashKind(operand));
    });
    if (!kinds.empty()) absl::StrAppend(&out, "    ", command.name, ") echo ", ShellQuoted(kinds), " ;;\n");
  }
  absl::StrAppend(&out, "  esac\n}\n\n# What follows an option of a subcommand; nothing for a flag.\n",
                  "_tensorcask_value() {\n  case \"$1 $2\" in\n");
  for (const Command& command : table.commands) {
    for (const Argument& option : command.options) {
      if (option.value.empty()) continue;
      absl::StrAppend(&out, "    ", ShellQuoted(absl::StrCat(command.name, " ", option.name)), ") echo ",
                      ShellQuoted(BashKind(option)), " ;;\n");
    }
  }
  absl::StrAppend(&out, "  esac\n}\n", kBashFunctions);
  return out;
}

std::string ZshCompletion(const CommandTable& table) {
  std::string out =
      absl::StrCat("#compdef tensorcask\n# Completion of tensorcask for zsh. Written by `tensorcask --print zsh`.\n",
                   kZshFunctions, "\n_tensorcask() {\n  local -a commands\n  commands=(\n");
  for (const Command& command : table.commands) {
    absl::StrAppend(&out, "    ", ShellQuoted(absl::StrCat(command.name, ":", ZshText(command.summary))), "\n");
  }
  absl::StrAppend(&out, "    'help:Print the help of a subcommand'\n  )\n  if (( CURRENT == 2 )); then\n",
                  "    _describe -t commands subcommand commands\n    _arguments");
  for (const Argument& option : table.tool.options) absl::StrAppend(&out, " ", ZshOption(option, option.name));
  absl::StrAppend(&out, "\n    return\n  fi\n  shift words\n  (( CURRENT-- ))\n  case $words[1] in\n",
                  "    help) _describe -t commands subcommand commands ;;\n");
  for (const Command& command : table.commands) {
    absl::StrAppend(&out, "    ", command.name, ")\n      _arguments -s -S");
    for (const Argument& option : command.options) {
      absl::StrAppend(&out, " \\\n        ", ZshOption(option, option.name));
    }
    for (size_t i = 0; i < command.operands.size(); ++i) {
      const Argument& operand = command.operands[i];
      const std::string place = operand.is_repeated ? "*" : absl::StrCat(i + 1);
      const std::string spec = absl::StrCat(place, ":", operand.name, ":", ZshAction(operand));
      absl::StrAppend(&out, " \\\n        ", ShellQuoted(spec));
    }
    absl::StrAppend(&out, "\n      ;;\n");
  }
  absl::StrAppend(&out, "  esac\n}\n\nif [[ $funcstack[1] == _tensorcask ]]; then\n  _tensorcask \"$@\"\nelse\n",
                  "  compdef _tensorcask tensorcask\nfi\n");
  return out;
}

std::string FishCompletion(const CommandTable& table) {
  std::string out =
      absl::StrCat("# Completion of tensorcask for fish. Written by `tensorcask --print fish`.\n", kFishFunctions);
  for (const Argument& option : table.tool.options) {
    absl::StrAppend(&out, "complete -c tensorcask -n __fish_use_subcommand", FishOption(option), "\n");
  }
  for (const Command& command : table.commands) {
    absl::StrAppend(&out, "\ncomplete -c tensorcask -n __fish_use_subcommand -a ", command.name, " -d ",
                    FishQuoted(command.summary), "\n");
    const std::string begin =
        absl::StrCat("complete -c tensorcask -n '__fish_seen_subcommand_from ", command.name, "'");
    for (const Argument& option : command.options) absl::StrAppend(&out, begin, FishOption(option), "\n");
    for (const Argument& operand : command.operands) {
      if (KindOf(operand) == Kind::kTensor) absl::StrAppend(&out, begin, " -a '(__tensorcask_tensors)'\n");
    }
  }
  return out;
}

}  // namespace tensorcask::tools
