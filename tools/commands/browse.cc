// tensorcask browse PATH...: the page of report from a port of this machine, with the elements of each tensor.

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/report/singular_values.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/summary.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tools/page_server.h"
#include "tensorcask/tools/report_request.h"
#include "tensorcask/tools/subcommand.h"

extern char** environ;

namespace tensorcask::tools {
namespace {

constexpr int64_t kMostElements = 4096;  // of one answer

struct BrowseFlags {
  ReportRequest request;
  uint64_t port = 0;
  bool no_open = false;
};

using Query = std::map<std::string, std::string>;

// What the page asks for, beside itself.
class ElementsOf {
 public:
  ElementsOf(std::unique_ptr<ArchiveReader> archive, const std::vector<std::string>& include)
      : archive_(std::move(archive)) {
    if (archive_ != nullptr) entries_ = SelectEntries(archive_->entries(), include, {});
  }

  // ["0.25", ...]: the elements of a slice, row-major.
  absl::StatusOr<std::string> Values(const Query& query) const {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Entry(query));
    CASK_ASSIGN_OR_RETURN(const std::vector<int64_t> starts, Numbers(query, "start"));
    CASK_ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, Numbers(query, "length"));
    if (starts.size() != lengths.size()) return absl::InvalidArgumentError("start and length differ in length");
    std::vector<TensorSlice::Extent> extents;
    int64_t count = 1;
    for (size_t i = 0; i < starts.size(); ++i) {
      extents.push_back({starts[i], lengths[i]});
      count = CheckedMul(count, lengths[i]).value_or(INT64_MAX);
    }
    if (count > kMostElements)
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMostElements, " elements"));
    CASK_ASSIGN_OR_RETURN(const TensorSlice slice, TensorSlice::Create(extents));
    CASK_ASSIGN_OR_RETURN(const Tensor part, archive_->ReadSlice(entry->name, slice));
    std::vector<std::string> texts;
    for (int64_t i = 0; i < part.num_elements(); ++i) texts.push_back(JsonQuoted(ElementToString(part, i)));
    return absl::StrCat("[", absl::StrJoin(texts, ","), "]");
  }

  absl::StatusOr<std::string> Singular(const Query& query) const {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Entry(query));
    const auto dims = entry->shape.dims();
    if (dims.size() != 2 || std::max(dims[0], dims[1]) > kMostSingularRows) {
      return absl::InvalidArgumentError(
          absl::StrCat("wanted a matrix of at most ", kMostSingularRows, " rows and columns"));
    }
    CASK_ASSIGN_OR_RETURN(const Tensor matrix, archive_->Read(entry->name));
    CASK_ASSIGN_OR_RETURN(const std::vector<double> values, SingularValues(matrix, [] { return !Interrupted(); }));
    return absl::StrCat(
        "[",
        absl::StrJoin(values, ",", [](std::string* out, double value) { absl::StrAppendFormat(out, "%.9g", value); }),
        "]");
  }

 private:
  static absl::StatusOr<std::vector<int64_t>> Numbers(const Query& query, const std::string& key) {
    std::vector<int64_t> numbers;
    const auto found = query.find(key);
    if (found == query.end()) return absl::InvalidArgumentError(absl::StrCat(key, " is missing"));
    if (found->second.empty()) return numbers;  // of a scalar
    for (const absl::string_view text : absl::StrSplit(found->second, ',')) {
      int64_t number = 0;
      if (!absl::SimpleAtoi(text, &number) || number < 0) {
        return absl::InvalidArgumentError(absl::StrCat(key, ": wanted whole numbers"));
      }
      numbers.push_back(number);
    }
    return numbers;
  }

  absl::StatusOr<const ArchiveEntry*> Entry(const Query& query) const {
    CASK_ASSIGN_OR_RETURN(const std::vector<int64_t> number, Numbers(query, "tensor"));
    if (number.size() != 1 || static_cast<uint64_t>(number[0]) >= entries_.size()) {
      return absl::NotFoundError("there is no such tensor");
    }
    return entries_[static_cast<size_t>(number[0])];
  }

  std::unique_ptr<ArchiveReader> archive_;
  std::vector<const ArchiveEntry*> entries_;
};

bool IsBadRequest(const absl::Status& status) { return absl::IsInvalidArgument(status) || absl::IsOutOfRange(status); }

PageAnswer AnswerOf(const absl::StatusOr<std::string>& json) {
  if (json.ok()) return {200, "application/json", *json};
  const int code = absl::IsNotFound(json.status()) ? 404 : IsBadRequest(json.status()) ? 400 : 500;
  return {code, "text/plain; charset=utf-8", std::string(json.status().message())};
}

// Opens an address with the browser of the user. Other users of the machine see the arguments of a process, so the
// browser gets a file that only this user can read, which leads to the address.
class OpenInBrowser {
 public:
  explicit OpenInBrowser(const std::string& url) {
    std::string folder = (std::filesystem::temp_directory_path(error_) / "tensorcask-browse-XXXXXX").string();
    if (error_ || mkdtemp(&folder[0]) == nullptr) return;
    folder_ = folder;
    std::string file = folder + "/open.html";
    std::ofstream(file) << "<!DOCTYPE html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url=" << url
                        << "\"><a href=\"" << url << "\">tensorcask browse</a>\n";
    std::string program = "xdg-open";
    char* const arguments[] = {&program[0], &file[0], nullptr};
    posix_spawn_file_actions_t silent;
    if (posix_spawn_file_actions_init(&silent) != 0) return;
    posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&silent, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t process = 0;
    posix_spawnp(&process, program.c_str(), &silent, nullptr, arguments, environ);  // it may be missing
    posix_spawn_file_actions_destroy(&silent);
  }
  ~OpenInBrowser() {
    if (!folder_.empty()) std::filesystem::remove_all(folder_, error_);
  }
  OpenInBrowser(const OpenInBrowser&) = delete;
  OpenInBrowser& operator=(const OpenInBrowser&) = delete;

 private:
  std::string folder_;
  std::error_code error_;
};

absl::StatusOr<ExitCode> Browse(const BrowseFlags& flags, Console& console) {
  CatchInterrupts();
  ReportRequest request = flags.request;
  request.live = true;
  std::unique_ptr<ArchiveReader> archive;
  const absl::StatusOr<std::string> page = MakePage("browse", request, console, &archive);
  if (!page.ok() && Interrupted()) return InterruptedExitCode();
  CASK_RETURN_IF_ERROR(page.status());
  const ElementsOf elements(std::move(archive), request.include);
  const auto answer = [&](const std::string& path, const Query& query) -> PageAnswer {
    if (path == "/") return {200, "text/html; charset=utf-8", *page};
    if (path == "/values") return AnswerOf(elements.Values(query));
    if (path == "/singular") return AnswerOf(elements.Singular(query));
    return {404, "text/plain", "there is no such page\n"};
  };
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<PageServer> server,
                        PageServer::Start(static_cast<uint16_t>(flags.port), answer));
  console.out << server->url() << std::endl;
  console.err << "tensorcask browse: serving at this address, for this machine alone; Ctrl-C ends it\n";
  const bool has_screen = std::getenv("DISPLAY") != nullptr || std::getenv("WAYLAND_DISPLAY") != nullptr;
  std::unique_ptr<OpenInBrowser> opened;
  if (!flags.no_open && has_screen) opened = std::make_unique<OpenInBrowser>(server->url());
  server->Run([] { return !Interrupted(); });
  return kDone;
}

}  // namespace

Action DeclareBrowse(CLI::App& app) {
  auto flags = std::make_shared<BrowseFlags>();
  AddReportOptions(app, &flags->request);
  AddNumberOption(app, "--port", "N", 0, 65535, &flags->port, "The port of 127.0.0.1 (default: a free one)");
  app.add_flag("--no-open", flags->no_open, "Print the address, and open no browser");
  app.footer(
      "Serves the page of `tensorcask report` at an address of this machine, prints the address and opens it in a "
      "browser. Of one file, the page also shows the elements of each tensor, read on demand, and the singular values "
      "of matrices of up to 4096 rows and columns. Ctrl-C ends it.\n\n"
      "Nothing is changed, and nothing leaves the machine. The address has a secret: requests without it are refused, "
      "and so are requests that another site or another name of this machine causes.\n\n"
      "Examples:\n"
      "  tensorcask browse model.ckpt\n"
      "  tensorcask browse --no-open --port 8080 model.safetensors");
  return [flags](Console& console) { return Browse(*flags, console); };
}

}  // namespace tensorcask::tools
