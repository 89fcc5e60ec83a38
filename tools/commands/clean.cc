// tensorcask clean FOLDER...: finds the temporary files that killed writers left (stale_temporaries.h), and in a folder
// of an object store their uploads and data files (store_leftovers.h).

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/io/stale_temporaries.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/output/console.h"
#include "tensorcask/tools/output/json_text.h"
#include "tensorcask/tools/output/table.h"
#include "tensorcask/tools/store_leftovers.h"
#include "tensorcask/tools/subcommand.h"
#include "tensorcask/tools/tool_files.h"

namespace tensorcask::tools {
namespace {

using Json = nlohmann::ordered_json;
using State = TemporaryFile::State;

struct CleanFlags {
  std::vector<std::string> folders;
  absl::Duration older_than = absl::Hours(7 * 24);  // in stores
  bool remove = false;
  bool json = false;
};

// One that may be removed, or a reason why not.
struct Found {
  std::string path;
  uint64_t size_bytes = 0;
  std::optional<int64_t> age_seconds;  // of an unknown time: none
  const char* state = "";
  std::string explanation;
  std::function<absl::Status()> remove;  // null: it stays
  bool removed = false;
  absl::Status status;  // why it could not be removed
};

// "5 s", "12 min", "7 h", "40 days".
std::string AgeText(std::optional<int64_t> seconds) {
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 60 * kMinute;
  constexpr int64_t kDay = 24 * kHour;
  if (!seconds.has_value()) return "?";
  if (*seconds < 2 * kMinute) return absl::StrCat(*seconds, " s");
  if (*seconds < 2 * kHour) return absl::StrCat(*seconds / kMinute, " min");
  if (*seconds < 2 * kDay) return absl::StrCat(*seconds / kHour, " h");
  return absl::StrCat(*seconds / kDay, " days");
}

// Of "7d", "36h", "90min", "10s", "0".
std::optional<absl::Duration> ParseAge(absl::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  int64_t number = 0;
  if (!absl::SimpleAtoi(text.substr(0, end), &number)) return std::nullopt;
  const absl::string_view unit = text.substr(end);
  if (unit == "d") return absl::Hours(24) * number;
  if (unit == "h") return absl::Hours(number);
  if (unit == "min") return absl::Minutes(number);
  if (unit == "s" || (unit.empty() && number == 0)) return absl::Seconds(number);
  return std::nullopt;
}

const char* StateName(State state) {
  switch (state) {
    case State::kStale:
      return "stale";
    case State::kInUse:
      return "in use";
    case State::kOther:
      return "not a regular file";
    case State::kUnknown:
      break;
  }
  return "unknown";
}

const char* Explanation(State state) {
  switch (state) {
    case State::kStale:
      return "stale: its writer is gone";
    case State::kInUse:
      return "in use: a process writes it";
    case State::kOther:
      return "not a regular file: no writer made it";
    case State::kUnknown:
      break;
  }
  return "unknown: cannot tell whether a process writes it";
}

std::string FileCount(uint64_t count) { return absl::StrCat(count, count == 1 ? " file" : " files"); }

Json ToJson(const Found& found) {
  Json json;
  SetJsonText("path", found.path, &json);
  json["size_bytes"] = found.size_bytes;
  json["age_seconds"] = found.age_seconds.has_value() ? Json(*found.age_seconds) : Json(nullptr);
  json["state"] = found.state;
  json["removed"] = found.removed;
  if (!found.status.ok()) json["error"] = JsonText(InToolWords(found.status.message()));
  return json;
}

void PrintText(const CleanFlags& flags, const std::vector<Found>& all, Console& console) {
  std::vector<TableRow> rows;
  uint64_t removable = 0;
  uint64_t removable_bytes = 0;
  uint64_t removed = 0;
  uint64_t removed_bytes = 0;
  for (const Found& found : all) {
    rows.push_back({Printable(found.path), HumanBytes(found.size_bytes), AgeText(found.age_seconds),
                    found.removed ? "removed" : found.explanation});
    if (found.removed) {
      ++removed;
      removed_bytes += found.size_bytes;
    } else if (found.remove != nullptr) {
      ++removable;
      removable_bytes += found.size_bytes;
    }
  }
  PrintTable(std::move(rows), {1, 2}, OutputWidth(), console.out);
  if (flags.remove) {
    console.out << FileCount(removed) << " removed, " << HumanBytes(removed_bytes) << '\n';
  } else if (all.empty()) {
    console.out << "no temporary files\n";
  } else if (removable == 0) {
    console.out << "nothing to remove\n";
  } else {
    console.out << FileCount(removable) << " can be removed, " << HumanBytes(removable_bytes) << "; --delete removes "
                << (removable == 1 ? "it" : "them") << '\n';
  }
}

absl::Status FindInFolder(const std::string& folder, std::vector<Found>* all) {
  CASK_ASSIGN_OR_RETURN(std::vector<TemporaryFile> files, ListTemporaries(folder));
  for (TemporaryFile& file : files) {
    Found found;
    found.path = file.path();
    found.size_bytes = file.info.size_bytes;
    found.age_seconds = std::max<int64_t>(0, absl::ToUnixSeconds(absl::Now()) - file.info.modified_unix_seconds);
    found.state = StateName(file.state);
    found.explanation = Explanation(file.state);
    if (file.state == State::kStale) found.remove = [file] { return RemoveTemporary(file); };
    all->push_back(std::move(found));
  }
  return absl::OkStatus();
}

absl::Status FindInStore(const std::string& folder, absl::Duration older_than, std::vector<Found>* all) {
  CASK_ASSIGN_OR_RETURN(std::vector<StoreLeftover> leftovers, FindStoreLeftovers(folder));
  const absl::Time now = absl::Now();
  for (StoreLeftover& leftover : leftovers) {
    const bool is_upload = !leftover.upload_id.empty();
    const bool is_known = leftover.since != absl::InfiniteFuture();
    const bool is_old = is_known && now - leftover.since >= older_than;
    Found found;
    found.path = leftover.path;
    found.size_bytes = leftover.file.size_bytes;
    if (is_known) found.age_seconds = std::max<int64_t>(0, absl::ToInt64Seconds(now - leftover.since));
    found.state = is_upload ? "unfinished upload" : "data without an index";
    found.explanation = absl::StrCat(found.state, is_old ? "" : ", not old enough: its writer may live");
    if (is_old) found.remove = [leftover] { return RemoveStoreLeftover(leftover); };
    all->push_back(std::move(found));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Clean(const CleanFlags& flags, Console& console) {
  std::vector<Found> all;
  bool failed = false;
  const auto report = [&](const absl::Status& status) {
    failed = true;
    console.err << "tensorcask clean: " << EscapeControls(status.message()) << '\n';
  };
  for (const std::string& folder : flags.folders) {
    std::vector<Found> of_folder;
    const absl::Status status =
        IsOfStore(folder) ? FindInStore(folder, flags.older_than, &of_folder) : FindInFolder(folder, &of_folder);
    if (!status.ok()) report(status);
    for (Found& found : of_folder) {
      if (flags.remove && found.remove != nullptr) {
        found.status = found.remove();
        found.removed = found.status.ok();
        if (!found.removed) report(found.status);
      }
      all.push_back(std::move(found));
    }
  }
  if (flags.json) {
    Json document = {{"files", Json::array()}};
    for (const Found& found : all) document["files"].push_back(ToJson(found));
    console.out << document.dump(/*indent=*/1, /*indent_char=*/' ', /*ensure_ascii=*/true,
                                 Json::error_handler_t::replace)
                << '\n';
  } else if (!failed || !all.empty()) {
    PrintText(flags, all, console);
  }
  return failed ? kFound : kDone;
}

}  // namespace

Action DeclareClean(CLI::App& app) {
  auto flags = std::make_shared<CleanFlags>();
  app.add_option("FOLDER", flags->folders, "Where to look; folders inside are not searched")->required();
  app.add_flag("--delete,--yes", flags->remove, "Remove the stale files; without this they are only listed");
  app.add_option_function<std::string>(
         "--older-than",
         [flags](const std::string& text) {
           const std::optional<absl::Duration> age = ParseAge(text);
           if (!age.has_value())
             throw CLI::ValidationError("--older-than", text + ": wanted a number and d, h, min or s");
           flags->older_than = *age;
         },
         "In a store: only what is at least so old, such as 36h (default 7d)")
      ->type_name("AGE");
  app.add_flag("--json", flags->json, "One JSON document");
  app.footer(
      "Tensorcask writes a file under a temporary name, NAME.tmp- and 16 hex digits, and renames it when it is whole.\n"
      "A process that is killed (SIGKILL, a crash, a power failure) leaves its temporary files. A later save to the\n"
      "same name removes them. This command finds those of all names in a folder.\n"
      "A file is stale if no process holds the lock that each writer holds until it ends. Files of living writers,\n"
      "files with other names, links and folders are never removed. On network file systems nothing is removed,\n"
      "because locks there do not show whether the writer is alive. Exit 1 if a folder cannot be listed or a file "
      "cannot be removed.\n\n"
      "In a folder of an object store, killed writers leave uploads that were not finished, and data files of a\n"
      "checkpoint whose index does not exist. There are no locks, so only their age tells that their writers are "
      "gone:\n"
      "of what is younger than --older-than nothing is removed. Give a time in which every save ends.\n\n"
      "Examples:\n"
      "  tensorcask clean /models\n"
      "  tensorcask clean --delete /models\n"
      "  tensorcask clean --older-than 2d --delete s3://bucket/run/");
  return [flags](Console& console) { return Clean(*flags, console); };
}

}  // namespace tensorcask::tools
