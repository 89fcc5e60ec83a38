#include "tensorcask/python/src/bindings.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/python/src/arguments.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/process_mutex.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/python/src/copy_memory.h"
#include "tensorcask/python/src/named_arrays.h"
#include "tensorcask/python/src/store_files.h"
#include "tensorcask/python/src/writer.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/view.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

absl::Status AddAll(const std::vector<NamedArray>& tensors, CheckpointWriter& writer) {
  for (const NamedArray& named : tensors) {
    if (!KeepGoing()) return absl::CancelledError("the save was cancelled");
    if (absl::Status status = writer.Add(named.name, named.tensor.view); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// As AddAll, for a writer in the background.
absl::Status AddCopies(const std::vector<NamedArray>& tensors, const RefPtr<Allocator>& memory,
                       CheckpointWriter& writer) {
  for (const NamedArray& named : tensors) {
    if (!KeepGoing()) return absl::CancelledError("the save was cancelled");
    CASK_ASSIGN_OR_RETURN(const TensorView view, AsItIsNow(named, memory));
    CheckpointAddOptions options;
    options.unchanging = view.device().type != DeviceType::kCpu;  // a snapshot
    if (absl::Status status = writer.Add(named.name, view, options); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// A save that runs in the background. Shared with the list of those that run when the interpreter exits.
class Save {
 public:
  explicit Save(BackgroundSave save) : save_(std::make_shared<BackgroundSave>(std::move(save))) {}

  bool IsDone() const { return save_->IsDone(); }
  void Wait() const {
    const std::shared_ptr<BackgroundSave> save = save_;
    Check(WithoutGil([&] { return save->Wait(); }));
  }
  // Waiting can take long; other threads of Python may run meanwhile.
  ~Save() {
    if (save_ == nullptr) return;
    const ReleasedGil release;
    save_.reset();
  }
  Save(Save&&) = default;

 private:
  std::shared_ptr<BackgroundSave> save_;
};

class Manager {
 public:
  Manager(const std::string& folder, std::shared_ptr<FileSystem> files, CheckpointManagerOptions options,
          bool reuse_memory)
      : files_(std::move(files)), memory_(std::make_unique<const CopyMemory>(reuse_memory)) {
    options.writer.file_system = files_.get();
    manager_ =
        std::make_unique<CheckpointManager>(Take(WithoutGil([&] { return CheckpointManager::Open(folder, options); })));
    const std::lock_guard<ProcessMutex> lock(All().mutex);
    All().open.insert(this);
  }
  ~Manager() {
    {
      const std::lock_guard<ProcessMutex> lock(All().mutex);
      All().open.erase(this);
    }
    Close();
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  void SaveStep(int64_t step, nb::handle tensors) {
    const std::vector<NamedArray> list = FromNamedArrays(tensors, Access::kReadHere);
    Check(Call<absl::Status>([&](CheckpointManager& manager) {
      return manager.Save(step, [&](CheckpointWriter& writer) { return AddAll(list, writer); });
    }));
  }

  Save SaveInBackground(int64_t step, nb::handle tensors) {
    const std::vector<NamedArray> list = FromNamedArrays(tensors, Access::kSnapshot);
    return Save(Take(Call<absl::StatusOr<BackgroundSave>>([&](CheckpointManager& manager) {
      return manager.SaveInBackground(
          step, [&](CheckpointWriter& writer) { return AddCopies(list, MemoryForCopies(list, *memory_), writer); });
    })));
  }

  nb::list Steps() {
    const std::vector<int64_t> found = Take(Call<absl::StatusOr<std::vector<int64_t>>>(
        [](CheckpointManager& manager) -> absl::StatusOr<std::vector<int64_t>> { return manager.steps(); }));
    nb::list steps;
    for (const int64_t step : found) steps.append(step);
    return steps;
  }

  nb::list Notes() {
    const std::vector<std::string> found = Take(Call<absl::StatusOr<std::vector<std::string>>>(
        [](CheckpointManager& manager) -> absl::StatusOr<std::vector<std::string>> { return manager.notes(); }));
    nb::list notes;
    for (const std::string& note : found) notes.append(ToText(note));
    return notes;
  }

  std::string PrefixOf(int64_t step) {
    return Take(Call<absl::StatusOr<std::string>>(
        [&](CheckpointManager& manager) -> absl::StatusOr<std::string> { return manager.PrefixOf(step); }));
  }

  absl::StatusOr<LatestCheckpoint> Latest(CheckStep check) {
    return Call<absl::StatusOr<LatestCheckpoint>>([&](CheckpointManager& manager) { return manager.Latest(check); });
  }

  // Waits for a save in the background, and releases the lock of the folder.
  void Close() {
    const ReleasedGil release;
    const std::lock_guard<ProcessMutex> lock(mutex_);
    manager_.reset();
    memory_.reset();
  }
  bool is_closed() const { return manager_ == nullptr; }

  // At the exit of the interpreter: saves that run are finished while Python still works.
  static void CloseAll() {
    std::set<Manager*> open;
    {
      const std::lock_guard<ProcessMutex> lock(All().mutex);
      open = All().open;
    }
    for (Manager* const manager : open) manager->Close();
  }

 private:
  struct Registry {
    ProcessMutex mutex;
    std::set<Manager*> open;
  };
  static Registry& All() {
    static auto* const all = new Registry;
    return *all;
  }

  template <typename Result, typename Fn>
  Result Call(Fn&& fn) {
    bool is_closed = false;
    Result result = WithoutGil([&]() -> Result {
      const std::lock_guard<ProcessMutex> lock(mutex_);
      is_closed = manager_ == nullptr;
      if (is_closed) return absl::UnknownError("closed");
      return fn(*manager_);
    });
    if (is_closed) RaiseClosed("the manager is closed");
    return result;
  }

  const std::shared_ptr<FileSystem> files_;
  ProcessMutex mutex_;
  // Null once closed.
  std::unique_ptr<CheckpointManager> manager_;
  std::unique_ptr<const CopyMemory> memory_;
};

// (step, prefix), or None if there is no whole step.
nb::object ToLatest(absl::StatusOr<LatestCheckpoint> latest) {
  if (absl::IsNotFound(latest.status())) return nb::none();
  const LatestCheckpoint found = Take(std::move(latest));
  return nb::make_tuple(found.step, ToText(found.prefix));
}

// (step, prefix, prefix of the base or None), or None.
nb::object ToLatestStep(absl::StatusOr<LatestCheckpoint> latest) {
  if (absl::IsNotFound(latest.status())) return nb::none();
  const LatestCheckpoint found = Take(std::move(latest));
  const nb::object base = found.base_prefix.empty() ? nb::none() : nb::object(ToText(found.base_prefix));
  return nb::make_tuple(found.step, ToText(found.prefix), base);
}

CheckStep FromCheck(bool everything) { return everything ? CheckStep::kEverything : CheckStep::kStructure; }

CheckpointManagerOptions FromArguments(nb::handle name, int keep_last, int64_t keep_every, int full_every,
                                       nb::handle level, nb::handle base, bool sync, int shards, nb::handle threads) {
  CheckpointManagerOptions options;
  options.name = FromText(name, "name");
  options.keep_last = keep_last;
  options.keep_every = keep_every;
  options.full_every = full_every;
  options.writer.payload.level = FromLevel(level);
  options.writer.payload.base = OpenBase(FromPathOrNone(base));
  options.writer.sync = sync;
  options.writer.num_shards = shards;
  const int num_threads = FromThreads(threads);
  options.writer.num_threads = options.writer.payload.level == PayloadLevel::kStored ? 1 : num_threads;
  return options;
}

void DefineSave(nb::module_& m) {
  nb::class_<Save>(m, "BackgroundSave",
                   "A save that runs in the background. ``CheckpointManager.save_in_background`` starts it.\n\n"
                   "    >>> import numpy as np, tensorcask as tc\n"
                   "    >>> with tc.CheckpointManager('background') as manager:\n"
                   "    ...     save = manager.save_in_background(7, {'w': np.ones(3)})\n"
                   "    ...     save.wait()                      # raises OSError if the disk is full\n"
                   "    ...     print(save.done, manager.steps())\n"
                   "    True [7]\n")
      .def("wait", &Save::Wait, "Waits for the save and raises its error, if it failed. May be called again.")
      .def_prop_ro("done", &Save::IsDone);
}

void DefineManagerClass(nb::module_& m) {
  nb::class_<Manager>(
      m, "CheckpointManager",
      "The checkpoints of a training run: numbered steps in one folder, of which the last few are kept.\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> with tc.CheckpointManager('run', keep_last=2) as manager:\n"
      "    ...     for step in range(4):\n"
      "    ...         save = manager.save_in_background(step, {'w': np.full(3, step)})\n"
      "    ...     save.wait()\n"
      "    ...     print(manager.steps(), manager.latest()[0])\n"
      "    [2, 3] 3\n\n"
      "A crash at any time leaves the newest whole step. A folder has one manager at a time (FailedPreconditionError) "
      "and any number of readers: ``tc.open(manager.path_of(step))``. In an object store (``s3://bucket/run``) there "
      "are no locks: several managers of a folder do not remove or replace each other's steps, and ``notes`` says "
      "that another one may be there.")
      .def(
          "__init__",
          [](Manager* self, nb::handle folder, nb::handle name, int keep_last, int64_t keep_every, int full_every,
             nb::handle level, nb::handle base, bool sync, int shards, nb::handle threads, bool reuse_memory,
             const nb::kwargs& others) {
            CheckKeywords<Manager>(others, folder, "folder");
            const std::string path = FromPath(folder);
            const CheckpointManagerOptions options =
                FromArguments(name, keep_last, keep_every, full_every, level, base, sync, shards, threads);
            new (self) Manager(path, Take(FilesFor(path)), options, reuse_memory);
          },
          nb::arg("folder").none() = nb::none(), nb::kw_only(), nb::arg("name") = "ckpt", nb::arg("keep_last") = 5,
          nb::arg("keep_every") = 0, nb::arg("full_every") = 1, nb::arg("level") = "stored",
          nb::arg("base").none() = nb::none(), nb::arg("sync") = true, nb::arg("shards") = 1,
          nb::arg("threads").none() = nb::none(), nb::arg("reuse_memory") = true, nb::arg("others"),
          nb::sig("def __init__(self, folder: str | os.PathLike[str], *, name: str = 'ckpt', keep_last: int = 5, "
                  "keep_every: int = 0, full_every: int = 1, level: str = 'stored', "
                  "base: str | os.PathLike[str] | None = None, "
                  "sync: bool = True, shards: int = 1, threads: int | None = None, reuse_memory: bool = True) -> None"),
          "Makes the folder if it is missing. ``keep_every`` also keeps each step that is a multiple of it. With "
          "``full_every=10`` each tenth step is full and those between are deltas to it; the base of a step that is "
          "kept is kept, too. ``tensorcask.open_latest`` reads the newest. With "
          "``reuse_memory`` the manager keeps the memory of the arrays' copies, as much as all of them, until it is "
          "closed, which makes the next save in the background faster.")
      .def("save", &Manager::SaveStep, nb::arg("step"), nb::arg("tensors"),
           nb::sig("def save(self, step: int, tensors: collections.abc.Mapping[str, object]) -> None"),
           "Saves a step and removes those that are no longer kept. FileExistsError if the step is there and whole.")
      .def(
          "save_in_background", &Manager::SaveInBackground, nb::arg("step"), nb::arg("tensors"),
          nb::sig("def save_in_background(self, step: int, tensors: collections.abc.Mapping[str, object]) "
                  "-> BackgroundSave"),
          "Copies the arrays and saves them on another thread. They may change when the call returns. First waits for "
          "a save that still runs. Arrays of PyTorch and CuPy on a GPU are copied there if its memory has room, in the "
          "order of the work on the current stream, else to the host; those of JAX never change.")
      .def("steps", &Manager::Steps, nb::sig("def steps(self) -> list[int]"), "The steps that exist, ascending.")
      .def(
          "path_of", [](Manager& self, int64_t step) { return ToText(self.PrefixOf(step)); }, nb::arg("step"),
          nb::sig("def path_of(self, step: int) -> str"), "What ``tensorcask.open`` takes.")
      .def(
          "latest", [](Manager& self, bool verify) { return ToLatest(self.Latest(FromCheck(verify))); }, nb::kw_only(),
          nb::arg("verify") = true, nb::sig("def latest(self, *, verify: bool = True) -> tuple[int, str] | None"),
          "Number and path of the newest step that is whole, or None. Without ``verify`` only its structure is "
          "checked, not every byte.")
      .def_prop_ro("notes", &Manager::Notes, nb::sig("def notes(self) -> list[str]"),
                   "Sentences about what is unusual in the folder, found when it was opened.")
      .def("close", &Manager::Close, "Waits for a save in the background and releases the folder.")
      .def_prop_ro("closed", &Manager::is_closed)
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> CheckpointManager"))
      .def(
          "__exit__", [](Manager& self, nb::args) { self.Close(); },
          nb::sig("def __exit__(self, *exception: object) -> None"));
}

}  // namespace

void DefineManager(nb::module_& m) {
  DefineSave(m);
  DefineManagerClass(m);
  m.def(
      "latest",
      [](nb::handle folder, nb::handle name, bool verify) {
        const std::string path = FromPath(folder);
        const std::string text = FromText(name, "name");
        const std::shared_ptr<FileSystem> files = Take(FilesFor(path));
        return ToLatest(WithoutGil([&] { return FindLatestCheckpoint(path, text, FromCheck(verify), files.get()); }));
      },
      nb::arg("folder"), nb::kw_only(), nb::arg("name") = "ckpt", nb::arg("verify") = true,
      nb::sig("def latest(folder: str | os.PathLike[str], *, name: str = 'ckpt', verify: bool = True) "
              "-> tuple[int, str] | None"),
      "Number and path of the newest whole checkpoint in a folder of numbered ones, TensorFlow's included, or None.\n\n"
      "With ``verify`` every byte is checked, otherwise the structure alone. A folder that does not exist has none.\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> for step in (100, 200):\n"
      "    ...     _ = tc.save(f'model.ckpt-{step}', {'w': np.ones(3)}, overwrite=True)\n"
      "    >>> tc.latest('.', name='model.ckpt')\n"
      "    (200, './model.ckpt-200')\n");
  m.def(
      "latest_step",
      [](nb::handle folder, nb::handle name, bool verify) {
        const std::string path = FromPath(folder);
        const std::string text = FromText(name, "name");
        const std::shared_ptr<FileSystem> files = Take(FilesFor(path));
        return ToLatestStep(
            WithoutGil([&] { return FindLatestCheckpoint(path, text, FromCheck(verify), files.get()); }));
      },
      nb::arg("folder"), nb::arg("name"), nb::arg("verify"),
      nb::sig("def latest_step(folder: str | os.PathLike[str], name: str, verify: bool) "
              "-> tuple[int, str, str | None] | None"));
  m.def("_close_managers", &Manager::CloseAll);
  nb::module_::import_("atexit").attr("register")(m.attr("_close_managers"));
}

}  // namespace tensorcask::python
