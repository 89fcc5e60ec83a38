#include "tensorcask/python/src/bindings.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/python/src/arguments.h"
#include "tensorcask/python/src/arrays.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/python/src/store_files.h"
#include "tensorcask/python/src/writer.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/sharded/communicator.h"
#include "tensorcask/serialize/sharded/sharded_load.h"
#include "tensorcask/serialize/sharded/sharded_save.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

// ---- merge ----------------------------------------------------------------------------------------------------------

nb::dict Merge(nb::handle sources, nb::handle destination, bool overwrite, bool sync, bool allow_missing,
               bool remove_sources) {
  std::vector<std::string> from;
  for (const nb::handle source : nb::iter(sources)) from.push_back(FromPath(source));
  const std::string to = FromPath(destination);
  CheckpointMergeOptions options;
  options.overwrite = overwrite;
  options.sync = sync;
  options.allow_missing = allow_missing;
  options.remove_sources = remove_sources;
  std::shared_ptr<FileSystem> files = Take(FilesFor(to));
  for (const std::string& path : from) {  // the files of a store have those of the system, too
    if (files.get() == InterruptibleFiles()) files = Take(FilesFor(path));
  }
  options.file_system = files.get();
  const CheckpointMergeReport report = Take(WithoutGil([&] { return MergeCheckpoints(from, to, options); }));
  nb::dict result;
  result["removed"] = TextList(report.removed);
  result["notes"] = TextList(report.notes);
  return result;
}

// ---- A communicator of Python ---------------------------------------------------------------------------------------

// An object with the methods of tensorcask.sharded.Communicator. Called without the GIL. The first exception of a
// method ends the work: RethrowError throws it.
class PythonCommunicator final : public Communicator {
 public:
  explicit PythonCommunicator(nb::handle object)
      : object_(nb::borrow(object)),
        rank_(nb::cast<int>(object.attr("rank"))),
        size_(nb::cast<int>(object.attr("size"))) {
    if (rank_ < 0 || rank_ >= size_) {
      Raise(absl::InvalidArgumentError(absl::StrCat("the communicator has rank ", rank_, " of ", size_)));
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view mine, int root) override {
    std::vector<std::string> all;
    const absl::Status status = Call([&] {
      const nb::object answer = object_.attr("gather")(ToBytes(mine), root);
      if (rank_ != root) return;
      for (const nb::handle each : nb::iter(answer)) all.push_back(FromBytes(each));
    });
    if (!status.ok()) return status;
    return all;
  }
  absl::StatusOr<std::string> Broadcast(absl::string_view from_root, int root) override {
    std::string answer;
    const absl::Status status = Call([&] {
      answer = FromBytes(object_.attr("broadcast")(rank_ == root ? ToBytes(from_root) : nb::bytes("", 0), root));
    });
    if (!status.ok()) return status;
    return answer;
  }
  absl::Status Barrier() override {
    return Call([&] { object_.attr("barrier")(); });
  }

  void RethrowError() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  static std::string FromBytes(nb::handle object) {
    const nb::object bytes = nb::steal(PyBytes_FromObject(object.ptr()));
    if (!bytes.is_valid()) throw nb::python_error();
    const nb::bytes view = nb::borrow<nb::bytes>(bytes);
    return std::string(view.c_str(), view.size());
  }

  template <typename Fn>
  absl::Status Call(Fn&& fn) {
    if (!CanTakeGil()) return absl::CancelledError("the interpreter exits");
    const nb::gil_scoped_acquire acquire;
    try {
      fn();
      return absl::OkStatus();
    } catch (...) {
      if (error_ == nullptr) error_ = std::current_exception();
      return absl::UnavailableError("the communicator raised an exception");
    }
  }

  const nb::object object_;
  const int rank_;
  const int size_;
  std::exception_ptr error_;
};

// ---- Pieces ---------------------------------------------------------------------------------------------------------

// The slice with these first indices and the extents of `view`, of a tensor of rank view.rank().
TensorSlice SliceAt(const std::string& name, nb::handle start, const TensorView& view) {
  std::vector<TensorSlice::Extent> extents;
  for (const nb::handle number : nb::iter(start)) {
    if (extents.size() == view.dims().size()) break;
    extents.push_back({nb::cast<int64_t>(number), view.dims()[extents.size()]});
  }
  if (extents.size() != view.dims().size() || nb::len(start) != extents.size()) {
    Raise(absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(name), ": start has ", nb::len(start),
                                                  " numbers; the piece has ", view.rank(), " axes")));
  }
  return Take(TensorSlice::Create(extents));
}

TensorShape ShapeOf(nb::handle shape) {
  std::vector<int64_t> dims;
  for (const nb::handle dim : nb::iter(shape)) dims.push_back(nb::cast<int64_t>(dim));
  return Take(TensorShape::Create(dims));
}

// All arguments of a process: what it saves or wants, where and how. Made before the processes exchange anything, so
// that an argument that cannot be used is an error of all of them (tensorcask.sharded.save).
struct PiecesToSave {
  std::string prefix;
  std::shared_ptr<FileSystem> files;
  ShardedSaveOptions options;
  std::vector<LocalPiece> pieces;
  std::vector<RefPtr<RefCounted>> pins;
};
struct PiecesToLoad {
  std::string prefix;
  std::shared_ptr<FileSystem> files;
  ShardedLoadOptions options;
  std::vector<WantedPiece> pieces;
};

void MakePiecesToSave(PiecesToSave* self, nb::handle items, nb::handle path, nb::handle level, bool overwrite,
                      bool sync, uint64_t alignment, SavePlanCache* plan) {
  PiecesToSave made;
  made.prefix = FromPath(path);
  made.files = Take(FilesFor(made.prefix));
  made.options.file_system = made.files.get();
  made.options.payload.level = FromLevel(level);
  made.options.overwrite = overwrite;
  made.options.sync = sync;
  made.options.alignment = alignment;
  made.options.plan = plan;
  for (const nb::handle item : nb::iter(items)) {
    LocalPiece piece;
    piece.name = FromText(item[0], "the name of a tensor");
    piece.full_shape = ShapeOf(item[1]);
    PinnedTensor pinned = FromTensorArgument(item[3], piece.name, Access::kReadHere);
    piece.elements = std::move(pinned.view);
    made.pins.push_back(std::move(pinned.pin));
    // A tensor without elements has no slice but the whole.
    piece.slice = piece.full_shape.num_elements() == 0 ? TensorSlice::Full(piece.full_shape.rank())
                                                       : SliceAt(piece.name, item[2], piece.elements);
    made.pieces.push_back(std::move(piece));
  }
  new (self) PiecesToSave(std::move(made));
}

void MakePiecesToLoad(PiecesToLoad* self, nb::handle items, nb::handle path, bool verify) {
  PiecesToLoad made;
  made.prefix = FromPath(path);
  made.files = Take(FilesFor(made.prefix));
  made.options.reader.read.file_system = made.files.get();
  if (!verify) made.options.reader.verify = Verify::kNever;
  for (const nb::handle item : nb::iter(items)) {
    WantedPiece piece;
    piece.name = FromText(item[0], "the name of a tensor");
    piece.into = FromPython(item[2], absl::StrCat("tensor ", Quoted(piece.name)), Access::kWrite);
    piece.slice = piece.into.num_elements() == 0 ? TensorSlice::Full(piece.into.rank())
                                                 : SliceAt(piece.name, item[1], piece.into);
    made.pieces.push_back(std::move(piece));
  }
  new (self) PiecesToLoad(std::move(made));
}

nb::dict ShardedSaveOf(nb::handle comm, const PiecesToSave& made) {
  PythonCommunicator communicator(comm);
  const absl::StatusOr<SaveReport> report =
      WithoutGil([&] { return ShardedSave(&communicator, made.prefix, made.pieces, made.options); });
  communicator.RethrowError();
  const SaveReport saved = Take(report);
  nb::dict result;
  result["pieces"] = saved.num_pieces;
  result["bytes"] = saved.bytes;
  result["data_files"] = saved.num_data_files;
  result["kept_plan"] = saved.kept_plan;
  result["removed"] = TextList(saved.removed);
  result["notes"] = TextList(saved.notes);
  return result;
}

void ShardedLoadOf(nb::handle comm, const PiecesToLoad& made) {
  PythonCommunicator communicator(comm);
  const absl::Status status =
      WithoutGil([&] { return ShardedLoad(&communicator, made.prefix, made.pieces, made.options); });
  communicator.RethrowError();
  // The same sentence on all processes, whichever of them wanted the tensor.
  Check(status, absl::StrContains(status.message(), ": no tensor ") ? About::kTensor : About::kFile);
}

}  // namespace

void DefineSharded(nb::module_& m) {
  m.def(
      "merge", &Merge, nb::arg("sources"), nb::arg("destination"), nb::kw_only(), nb::arg("overwrite") = false,
      nb::arg("sync") = true, nb::arg("allow_missing") = false, nb::arg("remove_sources") = false,
      nb::sig("def merge(sources: collections.abc.Iterable[str | os.PathLike[str]], "
              "destination: str | os.PathLike[str], *, overwrite: bool = False, sync: bool = True, "
              "allow_missing: bool = False, remove_sources: bool = False) -> dict[str, list[str]]"),
      "Joins TensorFlow checkpoints into one without reading their elements.\n\n"
      "Data files get a second name (a hard link; a copy where the file system has no links). Pieces of one tensor "
      "in several sources become one tensor. With ``allow_missing`` sources that do not exist are skipped; with "
      "``remove_sources`` they are removed when the new checkpoint is whole, but for data files in which no tensor is. "
      "Returns a dict with ``removed`` (the files that were removed) and ``notes``. Raises FileExistsError without "
      "``overwrite``, ValueError for a tensor that is whole in two sources.\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> for i in range(2):\n"
      "    ...     _ = tc.save(f'worker_{i}', {f'w{i}': np.ones(3)}, overwrite=True)\n"
      "    >>> _ = tc.merge(['worker_0', 'worker_1'], 'merged', overwrite=True)\n"
      "    >>> sorted(tc.load('merged'))\n"
      "    ['w0', 'w1']\n");
  nb::class_<SavePlanCache>(m, "SavePlan",
                            "Keeps the plan of a sharded save for the next one (tensorcask.sharded.save).")
      .def(nb::init<>());
  nb::class_<PiecesToSave>(m, "PiecesToSave", "What a process saves (tensorcask.sharded.save).")
      .def("__init__", &MakePiecesToSave, nb::arg("items"), nb::arg("path"), nb::kw_only(), nb::arg("level"),
           nb::arg("overwrite"), nb::arg("sync"), nb::arg("alignment"), nb::arg("plan").none(), nb::keep_alive<1, 8>(),
           nb::sig("def __init__(self, items: collections.abc.Iterable[tuple[str, collections.abc.Sequence[int], "
                   "collections.abc.Sequence[int], object]], path: str | os.PathLike[str], *, level: str, "
                   "overwrite: bool, sync: bool, alignment: int, plan: SavePlan | None) -> None"));
  nb::class_<PiecesToLoad>(m, "PiecesToLoad", "What a process wants (tensorcask.sharded.load).")
      .def("__init__", &MakePiecesToLoad, nb::arg("items"), nb::arg("path"), nb::kw_only(), nb::arg("verify"),
           nb::sig("def __init__(self, items: collections.abc.Iterable[tuple[str, collections.abc.Sequence[int], "
                   "object]], path: str | os.PathLike[str], *, verify: bool) -> None"));
  m.def("sharded_save", &ShardedSaveOf, nb::arg("comm"), nb::arg("pieces"),
        nb::sig("def sharded_save(comm: object, pieces: PiecesToSave) -> dict[str, typing.Any]"),
        "See tensorcask.sharded.save.");
  m.def("sharded_load", &ShardedLoadOf, nb::arg("comm"), nb::arg("wanted"),
        nb::sig("def sharded_load(comm: object, wanted: PiecesToLoad) -> None"), "See tensorcask.sharded.load.");
}

}  // namespace tensorcask::python
