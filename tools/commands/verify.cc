// tensorcask verify PATH...: every checksum and rule of structure; a line for each thing that is wrong.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/output/json_text.h"
#include "tensorcask/tools/read_progress.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

using Json = nlohmann::ordered_json;

struct VerifyFlags {
  std::vector<std::string> paths;
  InputOptions input;
  bool json = false;
  bool names = false;  // of all deltas for which the base is not the right one
};

bool IsWhole(const TensorCounts& counts) {
  return counts.damaged == 0 && counts.damaged_elsewhere == 0 && counts.not_readable == 0 && counts.past_limit == 0 &&
         counts.without_base == 0;
}

// Calls report(damage) for each thing that is wrong, as soon as it is found.
absl::StatusOr<TensorCounts> VerifyOne(const std::string& path, const InputOptions& options, Console& console,
                                       absl::FunctionRef<void(const ArchiveDamage&)> report) {
  ReadProgress progress(console, absl::StrCat("verifying ", Printable(path)));
  InputOptions all_of_it = options;
  all_of_it.unreadable_metadata = UnreadableMetadata::kRefuse;
  all_of_it.of_formats.checkpoint.keep_entries = false;
  all_of_it.files = &progress;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> input, OpenInput(path, all_of_it));
  if (console.progress) {
    uint64_t total = 0;
    CASK_RETURN_IF_ERROR(input->ForEachEntry([&](const ArchiveEntry& entry) {
      if (entry.alias_of.empty()) total = CheckedAdd(total, entry.stored_bytes).value_or(UINT64_MAX);
      return absl::OkStatus();
    }));
    progress.SetTotal(total);
  }
  return input->VerifyAll([&](const ArchiveDamage& damage) { progress.Print([&] { report(damage); }); });
}

absl::string_view KindOf(const ArchiveDamage& found) {
  if (absl::IsFailedPrecondition(found.status)) return "not readable";
  return absl::IsResourceExhausted(found.status) ? "past a limit" : "damaged";
}

void PrintDamage(const ArchiveDamage& found, Console& console) {
  constexpr size_t kWholeInMessages = 64;
  console.out << KindOf(found) << ": ";
  if (found.tensor.size() > kWholeInMessages) console.out << Printable(found.tensor) << ": ";  // the message cuts it
  console.out << EscapeControls(found.status.message()) << '\n';
}

void PrintCounts(const std::string& path, const TensorCounts& counts, Console& console) {
  for (const std::string& note : counts.notes) console.out << "note: " << EscapeControls(note) << '\n';
  console.out << Printable(path) << ": " << TensorCount(counts.whole) << " whole";
  if (counts.damaged > 0) console.out << ", " << counts.damaged << " damaged";
  if (counts.damaged_elsewhere > 0) {
    console.out << ", damage outside of tensors in " << counts.damaged_elsewhere
                << (counts.damaged_elsewhere == 1 ? " place" : " places");
  }
  if (counts.not_readable > 0) console.out << ", " << counts.not_readable << " not readable";
  if (counts.past_limit > 0) console.out << ", " << counts.past_limit << " past a limit and not checked";
  if (counts.without_base > 0) {
    console.out << ", " << counts.without_base << (counts.without_base == 1 ? " delta" : " deltas")
                << " not checked without the base (--base PATH)";
  }
  if (counts.incomplete > 0) {
    console.out << ", " << counts.incomplete << " incomplete: the file has only parts, which are whole";
  }
  if (counts.not_checked > 0) console.out << ", " << counts.not_checked << " of a kind that cannot be checked yet";
  console.out << '\n';
}

Json FoundJson(const ArchiveDamage& found) {
  Json json = found.tensor.empty() ? Json{{"name", nullptr}} : JsonName(found.tensor);
  json["kind"] = std::string(KindOf(found));
  SetJsonText("file", found.file, &json);
  json["offset"] = found.offset;
  json["message"] = JsonText(InToolWords(found.status.message()));
  return json;
}

void AddCounts(const TensorCounts& counts, Json damage, Json* json) {
  (*json)["whole"] = counts.whole;
  (*json)["damaged"] = counts.damaged;
  (*json)["damaged_elsewhere"] = counts.damaged_elsewhere;
  (*json)["not_readable"] = counts.not_readable;
  (*json)["past_limit"] = counts.past_limit;
  (*json)["without_base"] = counts.without_base;
  (*json)["not_checked"] = counts.not_checked;
  (*json)["incomplete"] = counts.incomplete;
  (*json)["damage"] = std::move(damage);
  (*json)["notes"] = Json::array();
  for (const std::string& note : counts.notes) (*json)["notes"].push_back(JsonText(InToolWords(note)));
}

absl::StatusOr<ExitCode> Verify(const VerifyFlags& flags, Console& console) {
  ExitCode code = kDone;
  Json document = {{"files", Json::array()}};
  for (const std::string& path : flags.paths) {
    Json damage = Json::array();
    int64_t not_readable = 0;
    const absl::StatusOr<TensorCounts> counts = VerifyOne(path, flags.input, console, [&](const ArchiveDamage& found) {
      if (flags.json) {
        damage.push_back(FoundJson(found));
        return;
      }
      // With a wrong base that is each tensor.
      const bool is_first = !absl::IsFailedPrecondition(found.status) || not_readable++ == 0;
      if (is_first || flags.names) PrintDamage(found, console);
    });
    if (not_readable > 1 && !flags.names) {
      console.out << "not readable: " << not_readable - 1 << " more for a reason of this kind (--names lists all)\n";
    }
    if (!counts.ok()) {  // the other files are verified all the same
      const std::string advice = LimitAdvice(counts.status());
      console.err << "tensorcask verify: " << EscapeControls(counts.status().message()) << (advice.empty() ? "" : "; ")
                  << advice << '\n';
    } else if (!flags.json) {
      PrintCounts(path, *counts, console);
    }
    if (flags.json) {
      Json json;
      SetJsonText("path", path, &json);
      if (counts.ok()) {
        AddCounts(*counts, std::move(damage), &json);
      } else {
        json["error"] = JsonText(InToolWords(counts.status().message()));
      }
      document["files"].push_back(std::move(json));
    }
    if (!counts.ok() || !IsWhole(*counts)) code = kFound;
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
  auto flags = std::make_shared<VerifyFlags>();
  app.add_option("PATH", flags->paths, "Checkpoint prefixes or .index files, or other files")->required();
  app.add_flag("--json", flags->json, "One JSON document");
  app.add_flag("--names", flags->names,
               "Print a line for each delta that --base does not fit, not only for the first one");
  AddInputOptions(app, &flags->input);
  app.footer(
      "Prints each damaged tensor with its file and offset, then a line for each PATH that can be opened. A "
      "tensor counts as whole only after all its bytes were read and checked. Of a tensor that is stored in "
      "chunks each damaged chunk is named; its other chunks can still be read. Tensors of which the file has "
      "only parts, and those of a kind that this version only lists (opaque elements, variants from machines of "
      "the other byte order, forms of later versions), are counted separately. Notes tell what harms nothing, "
      "such as bytes behind the last tensor of a data file.\n\n"
      "Exit 1 if anything is damaged or past a limit, or if a delta could not be checked because --base is "
      "missing or is another checkpoint.\n\n"
      "Example:\n"
      "  tensorcask verify model.ckpt-100 model.ckpt-200");
  return [flags](Console& console) { return Verify(*flags, console); };
}

}  // namespace tensorcask::tools
