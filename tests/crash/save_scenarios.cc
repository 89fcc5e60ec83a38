#include "tensorcask/tests/crash/save_scenarios.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/format/naming.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::testing {
namespace {

constexpr char kPrefix[] = "/model/ckpt";
constexpr char kFolder[] = "/model";
constexpr int64_t kOld = 1;
constexpr int64_t kNew = 2;
constexpr int64_t kNext = 3;

// One of the checkpoint's own files, or recognisably a temporary one.
absl::Status CheckNames(const MemoryFileSystem& files) {
  for (const std::string& path : files.Paths()) {
    const std::optional<checkpoint::DataName> data = checkpoint::ParseDataName(path);
    const bool is_ours = path == checkpoint::IndexPath(kPrefix) || (data.has_value() && data->prefix == kPrefix);
    if (!is_ours && !absl::StrContains(path, ".tmp-")) {
      return absl::InternalError(absl::StrCat(path, " is left, whose name does not say that it is temporary"));
    }
  }
  return absl::OkStatus();
}

class SaveScenario final : public Scenario {
 public:
  explicit SaveScenario(const SaveCase& save) : save_(save) {}

  std::string name() const override {
    std::string text;
    switch (save_.over) {
      case SaveCase::Over::kNothing:
        text = "new";
        break;
      case SaveCase::Over::kOld:
        text = "overwrite";
        break;
      case SaveCase::Over::kResharded:
        text = "overwrite more shards";
        break;
      case SaveCase::Over::kFewerShards:
        text = "overwrite fewer shards";
        break;
      case SaveCase::Over::kOverwritten:
        text = "overwrite again";
        break;
      case SaveCase::Over::kInterrupted:
        text = "overwrite after a kill";
        break;
      case SaveCase::Over::kDebris:
        text = "overwrite debris";
        break;
    }
    absl::StrAppend(&text, ", ", save_.num_shards, save_.num_shards == 1 ? " shard, " : " shards, ",
                    ContentName(save_.content));
    if (!save_.sync) absl::StrAppend(&text, ", no sync");
    if (save_.num_threads > 1) absl::StrAppend(&text, ", ", save_.num_threads, " threads");
    if (save_.background) absl::StrAppend(&text, ", background");
    return text;
  }

  bool durable() const override { return save_.sync; }

  absl::Status Prepare(FileSystem* files) const override {
    files->MakeFolder(kFolder);
    if (save_.over == SaveCase::Over::kNothing) return absl::OkStatus();
    CheckpointWriterOptions options;
    options.file_system = files;
    options.num_shards = save_.num_shards;
    if (save_.over == SaveCase::Over::kResharded) ++options.num_shards;
    if (save_.over == SaveCase::Over::kFewerShards) --options.num_shards;
    CASK_RETURN_IF_ERROR(SaveContent(kPrefix, save_.content, kOld, options));
    if (save_.over == SaveCase::Over::kOverwritten) {
      options.overwrite = true;
      CASK_RETURN_IF_ERROR(SaveContent(kPrefix, save_.content, kOld, options));
    }
    if (save_.over == SaveCase::Over::kInterrupted) {
      for (int shard = 0; shard <= save_.num_shards; ++shard) {
        Put(checkpoint::DataPath(kPrefix, shard, save_.num_shards + 1), "data of a save that was killed", files);
      }
      Put(absl::StrCat(kPrefix, ".index.tmp-0123456789abcdef"), "an index of it", files);
    }
    if (save_.over == SaveCase::Over::kDebris) {
      files->Remove(checkpoint::IndexPath(kPrefix));
      Put(absl::StrCat(kPrefix, ".index.tmp-0123456789abcdef"), "half an index", files);
    }
    return absl::OkStatus();
  }

  absl::Status Run(FileSystem* files, absl::FunctionRef<void()> promise) const override {
    CASK_RETURN_IF_ERROR(SaveContent(kPrefix, save_.content, kNew, Options(files)));
    promise();
    return absl::OkStatus();
  }

  absl::Status Check(MemoryFileSystem* files, int promises) const override {
    CASK_RETURN_IF_ERROR(CheckNames(*files));
    const bool had_old = save_.over != SaveCase::Over::kNothing && save_.over != SaveCase::Over::kDebris;
    const absl::StatusOr<int64_t> version = VersionOf(kPrefix, save_.content, files);
    if (version.ok()) {
      if (*version != kNew && !(*version == kOld && had_old && promises == 0)) {
        return absl::InternalError(absl::StrCat("version ", *version, " stands"));
      }
    } else if (had_old || promises > 0 || !IsMissing(version.status(), kPrefix, files)) {
      return version.status();
    }
    return CheckSavingAgain(files);
  }

 private:
  static void Put(const std::string& path, absl::string_view bytes, FileSystem* files) {
    const IoResult handle = files->CreateNew(path);
    files->Append(handle, bytes);
    files->Close(handle);
  }

  // The data files that the index does not count; all, if there is none.
  static std::set<std::string> UnlistedFiles(MemoryFileSystem* files) {
    CheckpointReaderOptions reading;
    reading.read.file_system = files;
    const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(kPrefix, reading);
    const int num_shards = reader.ok() ? reader->num_shards() : 0;
    std::set<std::string> unlisted;
    for (const std::string& path : files->Paths()) {
      const std::optional<checkpoint::DataName> data = checkpoint::ParseDataName(path);
      if (data.has_value() && data->num_shards != num_shards) unlisted.insert(path);
    }
    return unlisted;
  }

  CheckpointWriterOptions Options(FileSystem* files) const {
    CheckpointWriterOptions options;
    options.file_system = files;
    options.num_shards = save_.num_shards;
    options.sync = save_.sync;
    options.num_threads = save_.num_threads;
    options.background = save_.background;
    options.overwrite = save_.over != SaveCase::Over::kNothing;
    return options;
  }

  absl::Status CheckSavingAgain(MemoryFileSystem* files) const {
    CheckpointWriterOptions options = Options(files);
    options.overwrite = CountFiles(kFolder, files).standing > 0;
    const std::set<std::string> unlisted = UnlistedFiles(files);
    CASK_RETURN_IF_ERROR(SaveContent(kPrefix, save_.content, kNext, options));
    CASK_ASSIGN_OR_RETURN(const int64_t version, VersionOf(kPrefix, save_.content, files));
    if (version != kNext) return absl::InternalError(absl::StrCat("saved again, and version ", version, " stands"));
    // An overwriting save may have one empty data file more than it was asked for (FORMAT.md section 6).
    CheckpointReaderOptions reading;
    reading.read.file_system = files;
    CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(kPrefix, reading));
    const int extra = reader.num_shards() - save_.num_shards;
    const auto [temporary, standing] = CountFiles(kFolder, files);
    if (temporary > 0) return absl::InternalError("saved again, and temporary files of the killed save are left");
    const bool extra_is_right = extra == 0 || (extra == 1 && options.overwrite);
    // A save does not remove files that no index listed.
    const std::set<std::string> still_unlisted = UnlistedFiles(files);
    const bool left_is_right =
        std::includes(unlisted.begin(), unlisted.end(), still_unlisted.begin(), still_unlisted.end());
    const int own = standing - static_cast<int>(still_unlisted.size());
    if (extra_is_right && left_is_right && own == reader.num_shards() + 1) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("saved again with ", reader.num_shards(), " data files, and ", standing, " files stand"));
  }

  const SaveCase save_;
};

}  // namespace

std::unique_ptr<Scenario> MakeSaveScenario(const SaveCase& save) { return std::make_unique<SaveScenario>(save); }

Scenarios AllSaveScenarios() {
  Scenarios all;
  for (const auto over : {SaveCase::Over::kNothing, SaveCase::Over::kOld}) {
    for (const int num_shards : {1, 2, 5}) {
      for (const Content content : kAllContents) {
        SaveCase save;
        save.over = over;
        save.num_shards = num_shards;
        save.content = content;
        all.push_back(MakeSaveScenario(save));
      }
    }
  }
  for (const auto over : {SaveCase::Over::kResharded, SaveCase::Over::kFewerShards, SaveCase::Over::kOverwritten,
                          SaveCase::Over::kInterrupted, SaveCase::Over::kDebris}) {
    for (const Content content : {Content::kSmall, Content::kStrings, Content::kSliced}) {
      SaveCase save;
      save.over = over;
      save.num_shards = 2;
      save.content = content;
      all.push_back(MakeSaveScenario(save));
    }
  }
  for (const auto over : {SaveCase::Over::kNothing, SaveCase::Over::kOld}) {
    SaveCase save;
    save.over = over;
    save.num_shards = 5;
    save.content = Content::kMany;
    save.num_threads = 2;
    all.push_back(MakeSaveScenario(save));
    save.background = true;
    all.push_back(MakeSaveScenario(save));
    save.num_threads = 1;
    all.push_back(MakeSaveScenario(save));
  }
  for (const auto over : {SaveCase::Over::kNothing, SaveCase::Over::kOld}) {
    SaveCase save;
    save.over = over;
    save.num_shards = 2;
    save.sync = false;
    all.push_back(MakeSaveScenario(save));
  }
  return all;
}

}  // namespace tensorcask::testing
