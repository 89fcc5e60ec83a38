#include "tensorcask/python/src/writer.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/python/src/arguments.h"
#include "tensorcask/python/src/arrays.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/process_mutex.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/python/src/bindings.h"
#include "tensorcask/python/src/fsspec_files.h"
#include "tensorcask/python/src/numpy_dtypes.h"
#include "tensorcask/python/src/store_files.h"
#include "tensorcask/python/src/tensor_object.h"
#include "tensorcask/serialize/archive/archive_writer.h"
#include "tensorcask/serialize/archive/save_load.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/device_memory.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

struct WriteArguments {
  std::string path;
  std::shared_ptr<FileSystem> files;  // what `options` write to
  std::shared_ptr<const AllFormats> formats;
  const ArchiveFormat* format = nullptr;  // one of `formats`
  ArchiveWriterOptions options;
};

WriteArguments FromWriteArguments(nb::handle path, nb::handle format, nb::handle metadata, nb::handle level,
                                  nb::handle base, bool sync, bool overwrite, uint64_t alignment, int shards,
                                  nb::handle threads, const GivenFormatOptions& of_formats,
                                  std::shared_ptr<FileSystem> files = nullptr) {
  WriteArguments arguments;
  arguments.path = FromPath(path);
  arguments.formats.reset(new AllFormats(FormatsWith(of_formats.options)));
  arguments.format = &TargetFormat(arguments.path, format, arguments.formats->list());
  CheckGiven(of_formats, *arguments.format);
  ArchiveWriterOptions& options = arguments.options;
  options.file_metadata = FromMetadata(metadata);
  options.level = FromLevel(level);
  options.sync = sync;
  options.overwrite = overwrite;
  options.alignment = alignment;
  options.num_shards = shards;
  const int num_threads = FromThreads(threads);
  // More than one thread would copy the elements, which are memory of Python (CheckpointWriterOptions::num_threads):
  // worth it only where they are compressed.
  options.num_threads = options.level == PayloadLevel::kStored ? 1 : num_threads;
  options.base = OpenBase(FromPathOrNone(base), files);
  arguments.files = files != nullptr ? std::move(files) : Take(FilesFor(arguments.path));
  options.file_system = arguments.files.get();
  return arguments;
}

uint64_t Save(nb::handle path, nb::handle tensors, nb::handle format, nb::handle metadata, nb::handle level,
              nb::handle base, bool sync, bool overwrite, uint64_t alignment, int shards, nb::handle threads,
              nb::handle progress, nb::handle filesystem, const nb::kwargs& of_formats) {
  const WriteArguments arguments = FromWriteArguments(
      path, format, metadata, level, base, sync, overwrite, alignment, shards, threads,
      FromFormatOptions(of_formats, FormatOption::Use::kWriting), FromFileSystem(filesystem, /*writes=*/true));
  std::vector<TensorToSave> list;
  std::vector<RefPtr<RefCounted>> pins;
  for (const nb::handle item : ItemsOf(tensors, "tensors")) {
    TensorToSave tensor;
    tensor.name = FromText(item[0], "the name of a tensor");
    PinnedTensor pinned = FromTensorArgument(item[1], tensor.name, Access::kReadHere);
    tensor.elements = std::move(pinned.view);
    pins.push_back(std::move(pinned.pin));
    list.push_back(std::move(tensor));
  }
  SaveOptions options;
  Progress reporter(progress);
  options.progress = [&](uint64_t bytes) { return reporter.Report(bytes); };
  absl::StatusOr<uint64_t> saved =
      WithoutGil([&] { return SaveTensors(arguments.path, *arguments.format, list, arguments.options, options); });
  reporter.Finish(saved.ok());
  return Take(std::move(saved));
}

// A writer with threads only starts to copy elements from a GPU. Waits for these copies: the array may change when the
// call returns, by work of another stream.
absl::Status FinishCopies(const TensorView& view) {
  if (view.device() == Device()) return absl::OkStatus();
  DeviceMemory& memory = *view.buffer()->device_memory();
  return memory.Synchronize(memory.stream());
}

// A file that is being written. A mutex makes one caller at a time of several threads of Python.
class Writer {
 public:
  explicit Writer(WriteArguments arguments) : arguments_(std::move(arguments)) {
    if (absl::Status status = CheckWriterOptions(*arguments_.format, arguments_.options); !status.ok()) {
      Raise(absl::Status(status.code(), absl::StrCat(arguments_.path, ": ", status.message())));
    }
    writer_ = Take(WithoutGil([&] { return arguments_.format->Create(arguments_.path, arguments_.options); }));
  }
  // Other threads of Python may run while the file system removes what was written.
  ~Writer() {
    if (writer_ != nullptr) Close();
  }

  void Declare(nb::handle name, nb::handle dtype, nb::handle shape) {
    const ArchiveEntry entry = EntryFor(name, dtype, shape);
    Call(entry.name, [&](ArchiveWriter& writer) { return writer.Declare(entry); });
    declared_.emplace(entry.name, entry);
  }

  void Add(nb::handle name, nb::handle object, int shard) {
    ArchiveEntry entry;
    entry.name = FromText(name, "the name of a tensor");
    const PinnedTensor tensor = FromTensorArgument(object, entry.name, Access::kReadHere);
    entry.dtype = tensor.view.dtype();
    entry.shape = tensor.view.shape();
    entry.shard = shard;
    const bool was_declared = declared_.count(entry.name) > 0;
    Call(entry.name, [&](ArchiveWriter& writer) -> absl::Status {
      if (!was_declared) {
        if (absl::Status status = writer.Declare(entry); !status.ok()) return status;
      }
      absl::StatusOr<TensorView> dense = tensor.view.Contiguous();
      if (!dense.ok()) return dense.status();
      DecodedTensor decoded;
      decoded.view = *std::move(dense);
      if (absl::Status status = writer.Add(entry, decoded); !status.ok()) return status;
      return FinishCopies(decoded.view);
    });
  }

  void AddSlice(nb::handle name, nb::handle object, nb::handle start) {
    const std::string text = FromText(name, "the name of a tensor");
    const auto declared = declared_.find(text);
    if (declared == declared_.end()) {
      Raise(
          absl::FailedPreconditionError(absl::StrCat("tensor ", Quoted(text), " must be declared before its slices")));
    }
    const PinnedTensor part = FromTensorArgument(object, text, Access::kReadHere);
    const ArchiveEntry& entry = declared->second;
    const absl::Span<const int64_t> dims = part.view.dims();
    if (part.view.rank() != entry.shape.rank()) {
      Raise(absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(text), ": the part has the shape ",
                                                    part.view.shape().ToString(), ", and the tensor ",
                                                    entry.shape.ToString(), "; wanted the same number of axes")));
    }
    std::vector<TensorSlice::Extent> extents;
    for (const nb::handle number : nb::iter(start)) {
      if (extents.size() == dims.size()) {
        Raise(absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(text), ": start has more numbers than the ",
                                                      dims.size(), " axes of the part")));
      }
      extents.push_back({nb::cast<int64_t>(number), dims[extents.size()]});
    }
    while (extents.size() < dims.size()) extents.push_back({0, dims[extents.size()]});
    Call(text, [&](ArchiveWriter& writer) -> absl::Status {
      absl::StatusOr<TensorSlice> slice = TensorSlice::Create(extents);
      if (!slice.ok()) return slice.status();
      if (absl::StatusOr<TensorShape> inside = slice->Apply(entry.shape); !inside.ok()) return inside.status();
      absl::StatusOr<TensorView> dense = part.view.Contiguous();
      if (!dense.ok()) return dense.status();
      if (absl::Status status = writer.AddSlice(entry, {}, *slice, *dense); !status.ok()) return status;
      return FinishCopies(*dense);
    });
  }

  uint64_t Finish() {
    uint64_t bytes = 0;
    std::vector<std::string> removed;
    Call("", [&](ArchiveWriter& writer) -> absl::Status {  // another thread may close the writer afterwards
      if (absl::Status status = writer.Finish(); !status.ok()) return status;
      bytes = writer.file_bytes();
      removed = writer.removed_files();
      return absl::OkStatus();
    });
    removed_ = std::move(removed);
    Close();
    return bytes;
  }
  const std::vector<std::string>& removed() const { return removed_; }

  // Without Finish: removes what was written.
  void Close() {
    const ReleasedGil release;
    const std::lock_guard<ProcessMutex> lock(mutex_);
    writer_.reset();
  }
  bool is_closed() const { return writer_ == nullptr; }
  const std::string& path() const { return arguments_.path; }
  absl::string_view format_name() const { return arguments_.format->name(); }

 private:
  static ArchiveEntry EntryFor(nb::handle name, nb::handle dtype, nb::handle shape) {
    ArchiveEntry entry;
    entry.name = FromText(name, "the name of a tensor");
    entry.dtype = FromDTypeArgument(dtype);
    std::vector<int64_t> dims;
    for (const nb::handle dim : nb::iter(shape)) dims.push_back(nb::cast<int64_t>(dim));
    entry.shape = Take(TensorShape::Create(dims));
    return entry;
  }

  template <typename Fn>
  void Call(const std::string& name, Fn&& fn) {
    bool is_closed = false;
    const absl::Status status = WithoutGil([&]() -> absl::Status {
      const std::lock_guard<ProcessMutex> lock(mutex_);
      is_closed = writer_ == nullptr;
      return is_closed ? absl::UnknownError("closed") : fn(*writer_);
    });
    if (is_closed) RaiseClosed("the writer is closed");
    Check(status, name.empty() ? About::kFile : About::kTensor);
  }

  const WriteArguments arguments_;
  ProcessMutex mutex_;
  std::unique_ptr<ArchiveWriter> writer_;  // null once closed
  std::map<std::string, ArchiveEntry> declared_;
  std::vector<std::string> removed_;  // by Finish
};

#define TENSORCASK_WRITE_ARGUMENTS                                                                             \
  nb::arg("format").none() = nb::none(), nb::arg("metadata").none() = nb::none(), nb::arg("level") = "stored", \
  nb::arg("base").none() = nb::none(), nb::arg("sync") = true, nb::arg("overwrite") = false,                   \
  nb::arg("alignment") = 64, nb::arg("shards") = 1, nb::arg("threads").none() = nb::none()

constexpr char kWriteSignature[] =
    "*, format: str | None = None, metadata: collections.abc.Mapping[str, str] | None = None, level: str = 'stored', "
    "base: str | os.PathLike[str] | None = None, sync: bool = True, overwrite: bool = False, alignment: int = 64, "
    "shards: int = 1, threads: int | None = None, " TENSORCASK_WRITE_OF_FORMATS;

void DefineWriterClass(nb::module_& m) {
  static const std::string init_signature =
      absl::StrCat("def __init__(self, path: str | os.PathLike[str], ", kWriteSignature, ") -> None");
  nb::class_<Writer>(
      m, "Writer",
      "Writes tensors to a file that appears whole or not at all, when the ``with`` block ends without "
      "an exception.\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> with tc.Writer('big.safetensors', overwrite=True) as writer:\n"
      "    ...     writer.declare('rows', 'float32', (4, 2))\n"
      "    ...     writer.add_slice('rows', np.zeros((3, 2), np.float32), start=(0, 0))\n"
      "    ...     writer.add_slice('rows', np.ones((1, 2), np.float32), start=(3, 0))\n"
      "    >>> tc.load('big.safetensors')['rows'][2:].tolist()\n"
      "    [[0.0, 0.0], [1.0, 1.0]]\n\n"
      "Formats whose header comes first (safetensors, npz) need all declarations before the first "
      "``add``; ``add`` declares by itself where that is possible. The arguments are those of ``save``, but "
      "for ``progress``.")
      .def(
          "__init__",
          [](Writer* self, nb::handle path, nb::handle format, nb::handle metadata, nb::handle level, nb::handle base,
             bool sync, bool overwrite, uint64_t alignment, int shards, nb::handle threads, const nb::kwargs& others) {
            const GivenFormatOptions of_formats = FromFormatOptions(others, FormatOption::Use::kWriting);
            CheckKeywords<Writer>(of_formats.others, path, "path");
            new (self) Writer(FromWriteArguments(path, format, metadata, level, base, sync, overwrite, alignment,
                                                 shards, threads, of_formats));
          },
          nb::arg("path").none() = nb::none(), nb::kw_only(), TENSORCASK_WRITE_ARGUMENTS, nb::arg("others"),
          nb::sig(init_signature.c_str()))
      .def("declare", &Writer::Declare, nb::arg("name"), nb::arg("dtype"), nb::arg("shape"),
           nb::sig("def declare(self, name: str, dtype: object, shape: collections.abc.Sequence[int]) -> None"),
           "Announces a tensor by a dtype (a name, or what numpy.dtype takes) and a shape.")
      .def("add", &Writer::Add, nb::arg("name"), nb::arg("array"), nb::kw_only(), nb::arg("shard") = 0,
           nb::sig("def add(self, name: str, array: object, *, shard: int = 0) -> None"), "Writes a whole tensor.")
      .def("add_slice", &Writer::AddSlice, nb::arg("name"), nb::arg("array"), nb::arg("start"),
           nb::sig("def add_slice(self, name: str, array: object, start: collections.abc.Sequence[int]) -> None"),
           "Writes a part of a declared tensor: its first element has the index ``start``. Parts follow one another in "
           "row-major order, and no other tensor comes between.")
      .def("finish", &Writer::Finish, nb::sig("def finish(self) -> int"),
           "Makes the file appear. Returns its bytes. The end of a ``with`` block calls it.")
      .def("close", &Writer::Close, "Without ``finish``: removes what was written.")
      .def_prop_ro("closed", &Writer::is_closed)
      .def_prop_ro(
          "removed", [](const Writer& self) { return TextList(self.removed()); },
          nb::sig("def removed(self) -> list[str]"),
          "After ``finish``: the files of the replaced model that were removed, which its index lists.")
      .def(
          "__repr__",
          [](const Writer& self) {
            return nb::str(self.is_closed() ? "<tensorcask.Writer of {!r}, closed>" : "<tensorcask.Writer of {!r}, {}>")
                .format(ToText(self.path()), ToText(self.format_name()));
          },
          nb::sig("def __repr__(self) -> str"))
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Writer"))
      .def(
          "__exit__",
          [](Writer& self, nb::handle type, nb::handle, nb::handle) {
            if (self.is_closed()) return;
            if (type.is_none()) {
              self.Finish();
            } else {
              self.Close();
            }
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none(),
          nb::sig("def __exit__(self, type: object, value: object, traceback: object) -> None"));
}

}  // namespace

PinnedTensor FromTensorArgument(nb::handle object, const std::string& name, Access access) {
  PinnedTensor tensor;
  tensor.view = FromPython(object, absl::StrCat("tensor ", Quoted(name)), access);
  tensor.pin = PinMemory(tensor.view);
  return tensor;
}

void DefineWriter(nb::module_& m) {
  static const std::string save_signature =
      absl::StrCat("def save(path: str | os.PathLike[str], tensors: collections.abc.Mapping[str, object], ",
                   kWriteSignature, ", progress: object = None, filesystem: object = None) -> int");
  m.def(
      "save", &Save, nb::arg("path"), nb::arg("tensors"), nb::kw_only(), TENSORCASK_WRITE_ARGUMENTS,
      nb::arg("progress").none() = nb::none(), nb::arg("filesystem").none() = nb::none(), nb::arg("of_formats"),
      nb::sig(save_signature.c_str()),
      "Writes arrays to one file, which appears whole or not at all. Returns the bytes of the file.\n\n"
      "The extension of ``path`` names the format; without one it is a TensorFlow checkpoint; ``format`` overrides "
      "that. Arrays are whatever has DLPack, the buffer protocol or ``__array__``, of any strides, read without a "
      "copy; those on a GPU of NVIDIA are copied piece by piece while the last piece is written. ``metadata`` is "
      "text to keep beside them (safetensors). ``level`` is 'stored', 'default' or 'high' and "
      "compresses; ``base`` is an earlier checkpoint to store deltas against. With ``sync`` the file is durable when "
      "the call returns. ``overwrite`` replaces a file of this name, atomically; of a "
      "model or checkpoint in several files it removes those that the old index lists, and no others. With "
      "``checksums=False`` a "
      "safetensors file stores none, and no reader can notice damaged elements; other formats ignore this. "
      "``path`` may be ``s3://bucket/key``. With ``filesystem``, a file system of fsspec, ``path`` belongs to it; it "
      "must "
      "be able to create a file exclusively (``pipe_file`` with ``mode='create'``), else this is a "
      "NotImplementedError that says what is missing; each file is held in memory until it is whole. "
      "``shards`` is the number of data files of a checkpoint. With ``max_shard_bytes`` a safetensors model is several "
      "files of at most so many bytes of tensors and an index; the default for a path that ends in "
      "``.safetensors.index.json`` is 5 GB. A model of ONNX is made of the one at ``replace_in``, whose initializers "
      "get "
      "the arrays of their names; with ``external`` (True, or the name of a file) elements lie in a file beside it. "
      "``progress`` is called a few times per second with the number of bytes "
      "since its last call, or is an object with a method ``update`` for that, as a bar of tqdm; an exception of it "
      "ends the call.\n\n"
      "Raises FileExistsError; ValueError for what the format cannot hold; TypeError for what is no array.\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> tc.save('small.npy', {'x': np.arange(3.0)}, overwrite=True)\n"
      "    152\n");
  DefineWriterClass(m);
}

}  // namespace tensorcask::python
