// tensorcask clean FOLDER...: finds the temporary files that killed writers left (stale_temporaries.h).

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/io/stale_temporaries.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/console.h"
#include "tensorcask/tools/json_text.h"
#include "tensorcask/tools/subcommand.h"
#include "tensorcask/tools/table.h"

namespace tensorcask::tools {
namespace {

using Json = nlohmann::ordered_json;
using State = TemporaryFile::State;

struct CleanFlags {
  std::vector<std::string> folders;
  bool remove = false;
  bool json = false;
};

struct Found {
  TemporaryFile file;
  bool removed = false;
  absl::Status status;  // why it could not be removed
};

int64_t AgeSeconds(const TemporaryFile& file) {
  return std::max<int64_t>(0, static_cast<int64_t>(std::time(nullptr)) - file.info.modified_unix_seconds);
}

// "5 s", "12 min", "7 h", "40 days".
std::string AgeText(int64_t seconds) {
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 60 * kMinute;
  constexpr int64_t kDay = 24 * kHour;
  if (seconds < 2 * kMinute) return absl::StrCat(seconds, " s");
  if (seconds < 2 * kHour) return absl::StrCat(seconds / kMinute, " min");
  if (seconds < 2 * kDay) return absl::StrCat(seconds / kHour, " h");
  return absl::StrCat(seconds / kDay, " days");
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
  SetJsonText("path", found.file.path(), &json);
  json["size_bytes"] = found.file.info.size_bytes;
  json["age_seconds"] = AgeSeconds(found.file);
  json["state"] = StateName(found.file.state);
  json["removed"] = found.removed;
  if (!found.status.ok()) json["error"] = JsonText(InToolWords(found.status.message()));
  return json;
}

void PrintText(const CleanFlags& flags, const std::vector<Found>& all, Console& console) {
  std::vector<TableRow> rows;
  uint64_t stale = 0;
  uint64_t stale_bytes = 0;
  uint64_t removed = 0;
  uint64_t removed_bytes = 0;
  for (const Found& found : all) {
    const uint64_t bytes = found.file.info.size_bytes;
    rows.push_back({Printable(found.file.path()), HumanBytes(bytes), AgeText(AgeSeconds(found.file)),
                    found.removed ? "removed" : Explanation(found.file.state)});
    if (found.removed) {
      ++removed;
      removed_bytes += bytes;
    } else if (found.file.state == State::kStale) {
      ++stale;
      stale_bytes += bytes;
    }
  }
  PrintTable(std::move(rows), {1, 2}, OutputWidth(), console.out);
  if (flags.remove) {
    console.out << FileCount(removed) << " removed, " << HumanBytes(removed_bytes) << '\n';
  } else if (all.empty()) {
    console.out << "no temporary files\n";
  } else if (stale == 0) {
    console.out << "nothing to remove\n";
  } else {
    console.out << FileCount(stale) << " can be removed, " << HumanBytes(stale_bytes) << "; --delete removes "
                << (stale == 1 ? "it" : "them") << '\n';
  }
}

absl::StatusOr<ExitCode> Clean(const CleanFlags& flags, Console& console) {
  std::vector<Found> all;
  bool failed = false;
  const auto report = [&](const absl::Status& status) {
    failed = true;
    console.err << "tensorcask clean: " << EscapeControls(status.message()) << '\n';
  };
  for (const std::string& folder : flags.folders) {
    absl::StatusOr<std::vector<TemporaryFile>> files = ListTemporaries(folder);
    if (!files.ok()) {
      report(files.status());
      continue;
    }
    for (TemporaryFile& file : *files) {
      Found found{std::move(file), false, absl::OkStatus()};
      if (flags.remove && found.file.state == State::kStale) {
        found.status = RemoveTemporary(found.file);
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
  app.add_flag("--delete", flags->remove, "Remove the stale files; without this they are only listed");
  app.add_flag("--json", flags->json, "One JSON document");
  app.footer(
      "Tensorcask writes a file under a temporary name, NAME.tmp- and 16 hex digits, and renames it when it is whole.\n"
      "A process that is killed (SIGKILL, a crash, a power failure) leaves its temporary files. A later save to the\n"
      "same name removes them. This command finds those of all names in a folder.\n"
      "A file is stale if no process holds the lock that each writer holds until it ends. Files of living writers,\n"
      "files with other names, links and folders are never removed. On network file systems nothing is removed,\n"
      "because locks there do not show whether the writer is alive. Exit 1 if a folder cannot be listed or a file "
      "cannot be removed.\n\n"
      "Examples:\n"
      "  tensorcask clean /models\n"
      "  tensorcask clean --delete /models");
  return [flags](Console& console) { return Clean(*flags, console); };
}

}  // namespace tensorcask::tools
