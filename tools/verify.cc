// tensorcask verify PATH...: every checksum and rule of structure; a line for each thing that is wrong.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/json_text.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::vector<std::string> paths;
  InputOptions input;
  bool json = false;
};

struct Verdict {
  ArchiveCensus census;
  std::vector<ArchiveDamage> damage;

  bool whole() const {
    return census.damaged == 0 && census.not_readable == 0 && census.past_limit == 0 && census.without_base == 0;
  }
};

absl::StatusOr<Verdict> VerifyOne(const std::string& path, const InputOptions& options) {
  InputOptions all_of_it = options;
  all_of_it.refuse_unreadable_metadata = true;
  all_of_it.keep_entries = false;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> input, OpenInput(path, all_of_it));
  Verdict verdict;
  CASK_ASSIGN_OR_RETURN(verdict.census,
                        input->VerifyAll([&](const ArchiveDamage& damage) { verdict.damage.push_back(damage); }));
  return verdict;
}

absl::string_view KindOf(const ArchiveDamage& found) {
  if (absl::IsFailedPrecondition(found.status)) return "not readable";
  return absl::IsResourceExhausted(found.status) ? "past a limit" : "damaged";
}

void PrintText(const std::string& path, const Verdict& verdict, Console& console) {
  const ArchiveCensus& census = verdict.census;
  for (const ArchiveDamage& found : verdict.damage) {
    console.out << KindOf(found) << ": " << EscapeControls(found.status.message()) << '\n';
  }
  for (const std::string& note : census.notes) console.out << "note: " << EscapeControls(note) << '\n';
  console.out << Printable(path) << ": " << TensorCount(census.whole) << " whole";
  if (census.damaged > 0) console.out << ", " << census.damaged << " damaged";
  if (census.not_readable > 0) console.out << ", " << census.not_readable << " not readable";
  if (census.past_limit > 0) console.out << ", " << census.past_limit << " past a limit and not checked";
  if (census.without_base > 0) {
    console.out << ", " << census.without_base << (census.without_base == 1 ? " delta" : " deltas")
                << " not checked without the base (--base PATH)";
  }
  if (census.not_checked > 0) console.out << ", " << census.not_checked << " of a kind that cannot be checked yet";
  console.out << '\n';
}

Json ToJson(const std::string& path, const absl::StatusOr<Verdict>& verdict) {
  Json json = {{"path", JsonText(path)}};
  if (!verdict.ok()) {
    json["error"] = JsonText(std::string(verdict.status().message()));
    return json;
  }
  json["whole"] = verdict->census.whole;
  json["damaged"] = verdict->census.damaged;
  json["not_readable"] = verdict->census.not_readable;
  json["past_limit"] = verdict->census.past_limit;
  json["without_base"] = verdict->census.without_base;
  json["not_checked"] = verdict->census.not_checked;
  json["damage"] = Json::array();
  for (const ArchiveDamage& found : verdict->damage) {
    Json one = found.tensor.empty() ? Json{{"name", nullptr}} : JsonName(found.tensor);
    one["kind"] = std::string(KindOf(found));
    one["file"] = JsonText(found.file);
    one["offset"] = found.offset;
    one["message"] = JsonText(std::string(found.status.message()));
    json["damage"].push_back(std::move(one));
  }
  json["notes"] = Json::array();
  for (const std::string& note : verdict->census.notes) json["notes"].push_back(JsonText(note));
  return json;
}

absl::StatusOr<ExitCode> Verify(const Flags& flags, Console& console) {
  ExitCode code = kDone;
  Json document = {{"files", Json::array()}};
  for (const std::string& path : flags.paths) {
    absl::StatusOr<Verdict> verdict = absl::UnknownError("");
    {
      ProgressLine progress(console);
      progress.Show(absl::StrCat("verifying ", Printable(path)));
      verdict = VerifyOne(path, flags.input);
    }
    if (!verdict.ok()) {  // the other files are verified all the same
      console.err << "tensorcask verify: " << EscapeControls(verdict.status().message()) << '\n';
    } else if (!flags.json) {
      PrintText(path, *verdict, console);
    }
    if (flags.json) document["files"].push_back(ToJson(path, verdict));
    if (!verdict.ok() || !verdict->whole()) code = kFound;
  }
  if (flags.json) {
    console.out << document.dump(/*indent=*/1, /*indent_char=*/' ', /*ensure_ascii=*/true,
                                 Json::error_handler_t::replace)
                << '\n';
  }
  return code;
}

}  // namespace

Action DeclareVerify(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("PATH", flags->paths, "Checkpoint prefixes or .index files, or other files")->required();
  app.add_flag("--json", flags->json, "One JSON document");
  AddInputOptions(app, &flags->input);
  app.footer(
      "Reads every byte of the tensors that it calls whole. Prints each damaged tensor with its file and offset, then "
      "a\n"
      "line for each PATH. Exit 1 if anything is damaged or past a limit, or if a delta could not be checked because\n"
      "--base is missing or is another checkpoint.\n"
      "Entries of a kind that this version only lists (variants of other machines, forms of later versions) are "
      "counted\n"
      "separately. Of a tensor that is stored in chunks each damaged chunk is named; its other chunks can still be "
      "read.\n"
      "Bytes behind the last tensor of a data file are mentioned in a note: they harm nothing.\n\n"
      "Example:\n"
      "  tensorcask verify model.ckpt-100 model.ckpt-200");
  return [flags](Console& console) { return Verify(*flags, console); };
}

}  // namespace tensorcask::tools
