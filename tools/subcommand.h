// Subcommands. Each is a function that declares its options and returns the action to run after parsing.

#ifndef TENSORCASK_TOOLS_SUBCOMMAND_H_
#define TENSORCASK_TOOLS_SUBCOMMAND_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tools/formats.h"
#include "tensorcask/tools/output/console.h"

namespace tensorcask::tools {

// Runs a parsed command. main prints an error and exits with 1, or with 2 for an error of Misuse() (console.h).
using Action = std::function<absl::StatusOr<ExitCode>(Console&)>;

// Each fills `app` (description, options, an example in the footer) and is listed in tensorcask.cc.
Action DeclareLs(CLI::App& app);
Action DeclareShow(CLI::App& app);
Action DeclareStats(CLI::App& app);
Action DeclareDiff(CLI::App& app);
Action DeclareReport(CLI::App& app);
Action DeclareBrowse(CLI::App& app);
Action DeclareVerify(CLI::App& app);
Action DeclareSalvage(CLI::App& app);
Action DeclareConvert(CLI::App& app);
Action DeclareMerge(CLI::App& app);
Action DeclareReshard(CLI::App& app);
Action DeclareEdit(CLI::App& app);
Action DeclareClean(CLI::App& app);
Action DeclareCat(CLI::App& app);
Action DeclareSave(CLI::App& app);
Action DeclareSend(CLI::App& app);
Action DeclareRecv(CLI::App& app);
Action DeclareServe(CLI::App& app);
Action DeclareDemo(CLI::App& app);

// True if the name of one of `entries` matches the shell pattern (tensor/base/glob.h).
bool MatchesSome(const std::vector<ArchiveEntry>& entries, const std::string& glob);
// `name`, or if there is no such tensor and `name` is escaped as the tool prints it, the name that this means.
std::string ExactName(const ArchiveReader& input, const std::string& name);
// Errors: Misuse, with a similar name, if one of the operands `globs` matches no tensor of any of `inputs`.
absl::Status CheckMatched(const std::vector<std::string>& globs, const std::vector<const ArchiveReader*>& inputs);
// "tensorcask ls: GLOB matches no tensor" on console.err, with a hint of archive/similar_names.h.
void NoteUnmatched(absl::string_view command, absl::string_view what, Console& console, const std::string& hint = "");
// ReadForCopy; with `allow_loss`, nullopt and a line on console.err for a tensor whose elements are damaged.
absl::StatusOr<std::optional<DecodedTensor>> ReadUnlessLost(absl::string_view command, const ArchiveReader& input,
                                                            const ArchiveEntry& entry, bool allow_loss,
                                                            Console& console);
// What the file has besides tensors and, with --lenient, what breaks a rule of its format, on console.err.
void NoteOverlooked(absl::string_view command, const ArchiveReader& input, Console& console);
// A line "tensorcask cat: left out: ..." on console.err for what records cannot hold: the metadata of the file, and the
// values beside its tensors.
void NoteLeftOut(absl::string_view command, const ArchiveReader& input, Console& console);
// A line "tensorcask convert: SENTENCE" on console.err for each note.
void PrintNotes(absl::string_view command, const std::vector<std::string>& notes, Console& console);
// A line "removed: FILE" for each file of an older archive that a command removed, or "would remove: FILE".
void PrintRemoved(const std::vector<std::string>& paths, Console& console, bool is_dry_run = false);
// As NoteUnmatched, with hints, for each of these patterns that matches none of `entries`; `option` stands before the
// pattern.
void NoteAllUnmatched(absl::string_view command, absl::string_view option, const std::vector<std::string>& globs,
                      const std::vector<ArchiveEntry>& entries, Console& console);

// The tensors to copy: SelectEntries. One that cannot be read (ArchiveEntry::read_status) is an error, or with
// `allow_loss` left out with a line on console.err.
absl::StatusOr<std::vector<const ArchiveEntry*>> SelectReadable(absl::string_view command, const ArchiveReader& input,
                                                                const std::vector<std::string>& include,
                                                                const std::vector<std::string>& exclude,
                                                                bool allow_loss, Console& console);

// Options that several commands share: --format, --lenient, --base and --ignore-checksums for commands that read; --to,
// --level, --alignment and --overwrite for commands that write, and those of single formats (FormatOptionList) for
// both;
// --include and --exclude for commands that choose tensors.
void AddInputOptions(CLI::App& app, InputOptions* options);
void AddLenientOption(CLI::App& app, bool* lenient);
// --limit of a command that only reads records: of the bytes of all records on standard input.
void AddLimitOption(CLI::App& app, uint64_t* bytes);
void AddBaseOption(CLI::App& app, std::string* base);
void AddOutputOptions(CLI::App& app, std::string* to, OutputOptions* options);
void AddIncludeOption(CLI::App& app, std::vector<std::string>* globs);
void AddExcludeOption(CLI::App& app, std::vector<std::string>* globs);
// Every option that is a whole number: decimal digits, from `least` to `most`. CLI11 by itself takes "010" for 8, and
// the largest number for a signed one that is too large.
void AddNumberOption(CLI::App& app, const std::string& name, const std::string& type, uint64_t least, uint64_t most,
                     uint64_t* value, const std::string& what);
// An option whose value ParseSize takes.
CLI::Option* AddSizeOption(CLI::App& app, const std::string& name, uint64_t* bytes, const std::string& what);
// "no dtype is called "flaot32"; did you mean "float32"?".
std::string NoSuchDType(const std::string& word);
// Sets *bytes from "300", "500MB" (of 1000) or "2GiB" (of 1024); the message if `text` is not a size.
std::string ParseSize(const std::string& text, uint64_t* bytes);
// The message if `text` is no such number; empty if it is one.
std::string CheckNumber(const std::string& text, uint64_t least, uint64_t most);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_SUBCOMMAND_H_
