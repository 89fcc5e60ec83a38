#include "tensorcask/python/src/reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/python/src/arguments.h"
#include "tensorcask/python/src/arrays.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/python/src/bindings.h"
#include "tensorcask/python/src/nested_objects.h"
#include "tensorcask/python/src/remote.h"
#include "tensorcask/python/src/tensor_object.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/read_index.h"
#include "tensorcask/serialize/archive/save_load.h"
#include "tensorcask/serialize/archive/similar_names.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/device.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

// What a caller gets for a tensor.
nb::object ToResult(const TensorView& view, bool as_tensor) { return as_tensor ? ToTensorObject(view) : ToNumpy(view); }

class Reader {
 public:
  explicit Reader(const OpenArguments& arguments) {
    auto file = std::make_shared<OpenFile>();
    file->archive = Open(arguments);
    file->entries = SelectEntries(file->archive->entries(), {}, {});
    if (arguments.source == nullptr && IsRemote(arguments.path)) {
      file->version = Grpc().version(*file->archive);
    }
    file_ = std::move(file);
  }
  Reader(std::shared_ptr<const ArchiveReader> archive, const TensorVersion& version) {
    auto file = std::make_shared<OpenFile>();
    file->archive = std::move(archive);
    file->entries = SelectEntries(file->archive->entries(), {}, {});
    file->version = version;
    file_ = std::move(file);
  }

  const std::shared_ptr<const OpenFile>& file() const {
    if (file_ == nullptr) RaiseClosed("the reader is closed");
    return file_;
  }
  bool is_closed() const { return file_ == nullptr; }
  void Close() {
    if (file_ != nullptr) file_->is_closed = true;
    file_.reset();
  }

  const ArchiveEntry& Find(nb::handle name) const {
    return *Take(file()->archive->Find(FromText(name, "the name of a tensor")), About::kTensor);
  }
  bool Contains(nb::handle name) const {
    if (!PyUnicode_Check(name.ptr()) && !PyBytes_Check(name.ptr())) return false;
    return file()->archive->Find(FromText(name, "name")).ok();
  }

  nb::object Read(nb::handle name, bool mmap, bool as_tensor) const {
    const std::shared_ptr<const OpenFile> open = file();
    const std::string& text = Find(name).name;
    const Tensor tensor = Take(WithoutGil([&] { return mmap ? open->archive->Map(text) : open->archive->Read(text); }));
    return ToResult(tensor, as_tensor);
  }

  void ReadInto(nb::handle name, nb::handle out) const {
    const std::shared_ptr<const OpenFile> open = file();
    const std::string& text = Find(name).name;
    TensorView view = FromPython(out, "out", Access::kWrite);
    Check(WithoutGil([&] { return open->archive->ReadInto(text, &view); }));
  }

  void ReadManyInto(nb::handle outs, nb::handle threads) const {
    const std::shared_ptr<const OpenFile> open = file();
    std::vector<TensorToLoad> tensors;
    for (const nb::handle item : ItemsOf(outs, "outs")) {
      const std::string& name = Find(item[0]).name;
      tensors.push_back({name, FromPython(item[1], absl::StrCat("out for tensor ", Quoted(name)), Access::kWrite)});
    }
    // One thread reads about 5 GB/s; the bus to a GPU transfers about 50.
    const bool on_gpu = std::any_of(tensors.begin(), tensors.end(),
                                    [](const TensorToLoad& tensor) { return tensor.out.device() != Device(); });
    LoadOptions options;
    options.num_threads = on_gpu ? FromThreads(threads, /*most=*/16) : FromThreads(threads);
    options.progress = [](uint64_t) { return KeepGoing(); };
    Check(WithoutGil([&] { return LoadTensorsInto(*open->archive, tensors, options); }));
  }

  nb::list Select(nb::handle names) const;

 private:
  std::shared_ptr<const OpenFile> file_;  // null once closed
};

// A part of a tensor that is read when it is indexed.
class Slice {
 public:
  Slice(std::shared_ptr<const OpenFile> file, const ArchiveEntry& entry) : file_(std::move(file)), entry_(&entry) {}

  const ArchiveEntry& entry() const { return *entry_; }
  bool is_closed() const { return file_->is_closed; }

  nb::object Read(nb::handle index) const {
    if (is_closed()) RaiseClosed("the reader is closed");
    const std::vector<AxisIndex> parsed = FromIndex(index, entry_->shape.rank());
    return ToNumpy(Take(WithoutGil([&] { return ReadIndex(*file_->archive, *entry_, parsed); })));
  }

 private:
  const std::shared_ptr<const OpenFile> file_;
  const ArchiveEntry* const entry_;  // of file_
};

// ---- Loading --------------------------------------------------------------------------------------------------------

// The entries that the names and patterns of `names` choose, in the order of the file; all for None. Errors: KeyError
// for a pattern, or a name, that no tensor has.
std::vector<const ArchiveEntry*> Choose(const OpenFile& file, nb::handle names) {
  const std::optional<std::vector<std::string>> wanted = FromNames(names, "a name");
  if (!wanted.has_value()) return file.entries;
  for (const std::string& name : *wanted) {
    if (file.archive->Find(name).ok()) continue;
    if (name.find_first_of("*?[") == std::string::npos) Take(file.archive->Find(name), About::kTensor);
    if (SelectEntries(file.archive->entries(), {name}, {}).empty()) {
      std::vector<absl::string_view> known;
      for (const ArchiveEntry& entry : file.archive->entries()) known.push_back(entry.name);
      Raise(absl::NotFoundError(absl::StrCat(file.archive->path(), ": no tensor matches ", Quoted(name),
                                             archive::HintForPattern(name, known))),
            About::kTensor);
    }
  }
  std::vector<const ArchiveEntry*> chosen;
  if (!wanted->empty()) chosen = SelectEntries(file.archive->entries(), *wanted, {});
  return chosen;
}

nb::list Reader::Select(nb::handle names) const {
  nb::list chosen;
  for (const ArchiveEntry* const entry : Choose(*file(), names)) chosen.append(ToText(entry->name));
  return chosen;
}

nb::dict Load(nb::handle path, nb::handle names, bool mmap, bool as_tensor, nb::handle threads,
              const nb::kwargs& reading) {
  const Reader reader(FromOpenArguments(path, reading, /*takes_file_system=*/true));
  const OpenFile& file = *reader.file();
  const std::vector<const ArchiveEntry*> chosen = Choose(file, names);
  LoadOptions options;
  options.map = mmap;
  options.num_threads = FromThreads(threads);
  options.progress = [](uint64_t) { return KeepGoing(); };
  const std::vector<Tensor> tensors = Take(WithoutGil([&] { return LoadTensors(*file.archive, chosen, options); }));
  nb::dict result;
  for (size_t i = 0; i < chosen.size(); ++i) result[ToText(chosen[i]->name)] = ToResult(tensors[i], as_tensor);
  return result;
}

// ---- The classes ----------------------------------------------------------------------------------------------------

nb::object ToOptional(const std::optional<uint64_t>& number) {
  return number.has_value() ? nb::object(nb::int_(*number)) : nb::none();
}

std::string Repr(const ArchiveEntry& entry) {
  return absl::StrCat("Entry(", Quoted(entry.name), ", ", DTypeName(entry.dtype), " ", entry.shape.ToString(), ", ",
                      entry.encoding, ", ", entry.stored_bytes, " bytes stored)");
}

void DefineEntry(nb::module_& m) {
  nb::class_<ArchiveEntry>(m, "Entry",
                           "What a file says of one tensor, without its elements.\n\n"
                           "    >>> import numpy as np, tensorcask as tc\n"
                           "    >>> _ = tc.save('model', {'w': np.zeros((4, 3), np.float32)}, overwrite=True)\n"
                           "    >>> entry = tc.open('model').entry('w')\n"
                           "    >>> entry.dtype, entry.shape, entry.nbytes\n"
                           "    ('float32', (4, 3), 48)\n")
      .def_prop_ro(
          "name", [](const ArchiveEntry& entry) { return ToText(entry.name); }, nb::sig("def name(self) -> str"))
      .def_prop_ro(
          "dtype", [](const ArchiveEntry& entry) { return ToText(DTypeName(entry.dtype)); },
          nb::sig("def dtype(self) -> str"),
          "The name of the dtype, also where NumPy lacks it: ``'float32'``, ``'bfloat16'``, ``'string'``.")
      .def_prop_ro(
          "shape", [](const ArchiveEntry& entry) { return ToTuple(entry.shape.dims()); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "strides",
          [](const ArchiveEntry& entry) -> nb::object {
            if (entry.strides.empty()) return nb::none();
            return ToTuple(entry.strides);
          },
          nb::sig("def strides(self) -> tuple[int, ...] | None"),
          "Steps in elements of the order in the file; None for row-major.")
      .def_prop_ro(
          "nbytes", [](const ArchiveEntry& entry) { return ElementBytes(entry); }, "Bytes of the elements in memory.")
      .def_prop_ro(
          "stored_bytes", [](const ArchiveEntry& entry) { return entry.stored_bytes; }, "Bytes in the file.")
      .def_prop_ro(
          "encoding", [](const ArchiveEntry& entry) { return ToText(entry.encoding); },
          nb::sig("def encoding(self) -> str"), "``'plain'``, ``'sliced'``, ``'encoded high delta'``, ...")
      .def_prop_ro(
          "shard",
          [](const ArchiveEntry& entry) -> nb::object {
            return entry.shard.has_value() ? nb::object(nb::int_(*entry.shard)) : nb::none();
          },
          nb::sig("def shard(self) -> int | None"))
      .def_prop_ro(
          "offset", [](const ArchiveEntry& entry) { return ToOptional(entry.offset); },
          nb::sig("def offset(self) -> int | None"), "In the file that has the elements, in bytes.")
      .def_prop_ro(
          "alias_of",
          [](const ArchiveEntry& entry) -> nb::object {
            return entry.alias_of.empty() ? nb::none() : ToText(entry.alias_of);
          },
          nb::sig("def alias_of(self) -> str | None"), "The name of the tensor that this one shares.")
      .def(
          "__repr__", [](const ArchiveEntry& entry) { return ToText(Repr(entry)); },
          nb::sig("def __repr__(self) -> str"));
}

void DefineSlice(nb::module_& m) {
  nb::class_<Slice>(m, "SliceReader",
                    "A stored tensor of which a part is read when it is indexed. ``Reader.slice`` makes it.\n\n"
                    "    >>> import numpy as np, tensorcask as tc\n"
                    "    >>> _ = tc.save('model', {'w': np.arange(12).reshape(4, 3)}, overwrite=True)\n"
                    "    >>> rows = tc.open('model').slice('w')\n"
                    "    >>> rows.shape, rows[2:, 0].tolist()\n"
                    "    ((4, 3), [6, 9])\n\n"
                    "Raises IndexError for an index outside of the tensor, and ClosedError once the reader is closed.")
      .def("__getitem__", &Slice::Read, nb::arg("index"),
           nb::sig("def __getitem__(self, index: int | slice | types.EllipsisType | tuple[int | slice | "
                   "types.EllipsisType, ...], /) -> numpy.ndarray"),
           "Reads the part that NumPy's basic index selects, and no other rows.")
      .def("__len__",
           [](const Slice& slice) {
             if (slice.entry().shape.rank() == 0) throw nb::type_error("a tensor without axes has no length");
             return slice.entry().shape.dim(0);
           })
      .def_prop_ro("entry", [](const Slice& slice) { return slice.entry(); })
      .def_prop_ro(
          "shape", [](const Slice& slice) { return ToTuple(slice.entry().shape.dims()); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "dtype", [](const Slice& slice) { return ToText(DTypeName(slice.entry().dtype)); },
          nb::sig("def dtype(self) -> str"))
      .def(
          "__repr__",
          [](const Slice& slice) {
            const ArchiveEntry& entry = slice.entry();
            return ToText(absl::StrCat("<tensorcask.SliceReader of ", Quoted(entry.name), ", ", DTypeName(entry.dtype),
                                       " ", entry.shape.ToString(), slice.is_closed() ? ", closed>" : ">"));
          },
          nb::sig("def __repr__(self) -> str"));
}

nb::object ViewOf(const char* type, nb::handle self) {
  return nb::module_::import_("collections.abc").attr(type)(self);
}

template <typename Class>
void DefineMapping(Class& reader) {
  reader
      .def(
          "__getitem__", [](const Reader& self, nb::handle name) { return self.Read(name, false, false); },
          nb::arg("name"), nb::sig("def __getitem__(self, name: str, /) -> numpy.ndarray"),
          "Reads one tensor and verifies its checksum, if the format has one. Raises KeyError for an unknown name.")
      .def("__contains__", &Reader::Contains, nb::sig("def __contains__(self, name: object, /) -> bool"))
      .def("__len__", [](const Reader& self) { return self.file()->entries.size(); })
      .def(
          "__iter__",
          [](const Reader& self) {
            nb::list names;
            for (const ArchiveEntry* const entry : self.file()->entries) names.append(ToText(entry->name));
            return nb::iter(names);
          },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"), "Names in the order of the file.")
      .def(
          "keys", [](nb::handle self) { return ViewOf("KeysView", self); },
          nb::sig("def keys(self) -> collections.abc.KeysView[str]"))
      .def(
          "values", [](nb::handle self) { return ViewOf("ValuesView", self); },
          nb::sig("def values(self) -> collections.abc.ValuesView[numpy.ndarray]"), "Reads each when it is its turn.")
      .def(
          "items", [](nb::handle self) { return ViewOf("ItemsView", self); },
          nb::sig("def items(self) -> collections.abc.ItemsView[str, numpy.ndarray]"),
          "Reads each when it is its turn.")
      .def(
          "get",
          [](const Reader& self, nb::handle name, nb::handle otherwise) -> nb::object {
            return self.Contains(name) ? self.Read(name, false, false) : nb::borrow(otherwise);
          },
          nb::arg("name"), nb::arg("default").none() = nb::none(),
          nb::sig("def get(self, name: str, default: object = None) -> object"));
}

// The tensors as a table of HTML, for notebooks.
std::string TableOf(const Reader& reader) {
  if (reader.is_closed()) return "<div>tensorcask.Reader, closed</div>";
  constexpr size_t kMostRows = 200;
  const auto file = reader.file();
  const ArchiveReader& archive = *file->archive;
  const std::vector<const ArchiveEntry*>& entries = file->entries;
  std::string html = absl::StrCat("<div><b>", EscapeHtml(Quoted(archive.path())), "</b> ", archive.format(), ", ",
                                  entries.size(), " tensors</div><table><thead><tr><th>name</th><th>dtype</th>",
                                  "<th>shape</th><th>bytes</th><th>encoding</th></tr></thead><tbody>");
  for (size_t i = 0; i < std::min(entries.size(), kMostRows); ++i) {
    const ArchiveEntry& entry = *entries[i];
    absl::StrAppend(&html, "<tr><td>", EscapeHtml(Quoted(entry.name)), "</td><td>", DTypeName(entry.dtype), "</td><td>",
                    EscapeHtml(entry.shape.ToString()), "</td><td>", entry.stored_bytes, "</td><td>",
                    EscapeHtml(entry.encoding), "</td></tr>");
  }
  html += "</tbody></table>";
  if (entries.size() > kMostRows) absl::StrAppend(&html, "<div>and ", entries.size() - kMostRows, " more</div>");
  return html;
}

void DefineReaderClass(nb::module_& m) {
  nb::class_<Reader> reader(m, "Reader", nb::is_weak_referenceable(),
                            "The tensors of one file, whatever its format: a read-only mapping of names to arrays. "
                            "``tensorcask.open`` makes it. Several threads may use it at once.\n\n"
                            "    >>> import numpy as np, tensorcask as tc\n"
                            "    >>> _ = tc.save('model', {'b': np.zeros(3), 'a': np.ones(2)}, overwrite=True)\n"
                            "    >>> with tc.open('model') as reader:\n"
                            "    ...     print(sorted(reader), 'c' in reader, reader['a'])\n"
                            "    ['a', 'b'] False [1. 1.]\n\n"
                            "After ``close``, which the end of a ``with`` block calls, reading is a ClosedError.");
  DefineMapping(reader);
  reader
      .def("read", &Reader::Read, nb::arg("name"), nb::kw_only(), nb::arg("mmap") = false, nb::arg("tensor") = false,
           nb::sig("def read(self, name: str, *, mmap: bool = False, tensor: bool = False) -> typing.Any"),
           "Reads one tensor, as a numpy.ndarray or with ``tensor`` as a tensorcask.Tensor. With ``mmap`` the array is "
           "read-only memory of the file where the format allows that; no checksum is verified again then, and the "
           "file must not change.")
      .def(
          "read_into", &Reader::ReadInto, nb::arg("name"), nb::arg("out"),
          nb::sig("def read_into(self, name: str, out: object) -> None"),
          "Reads into the memory of an array or tensor of the stored dtype and shape, of any strides, on the host or a "
          "GPU of NVIDIA.")
      .def(
          "read_many_into", &Reader::ReadManyInto, nb::arg("outs"), nb::kw_only(),
          nb::arg("threads").none() = nb::none(),
          nb::sig("def read_many_into(self, outs: collections.abc.Mapping[str, object], *, threads: int | None = None) "
                  "-> None"),
          "The same for several tensors, by name, on ``threads`` threads: None is as many as the machine has cores, at "
          "most "
          "4, and for arrays on a GPU at most 16.")
      .def("select", &Reader::Select, nb::arg("names").none(),
           nb::sig("def select(self, names: str | collections.abc.Iterable[str] | None) -> list[str]"),
           "The names that a name, a shell pattern or several of them choose, in the order of the file; all for None. "
           "KeyError for one that chooses none.")
      .def(
          "slice", [](const Reader& self, nb::handle name) { return Slice(self.file(), self.Find(name)); },
          nb::arg("name"), nb::sig("def slice(self, name: str) -> SliceReader"),
          "``reader.slice('w')[1000:1010]`` reads these rows only.")
      .def(
          "entry", [](const Reader& self, nb::handle name) { return self.Find(name); }, nb::arg("name"),
          nb::sig("def entry(self, name: str) -> Entry"), "Dtype, shape and more, without reading the elements.")
      .def(
          "nested",
          [](nb::handle self, nb::handle read) {
            const std::shared_ptr<const OpenFile> file = nb::cast<const Reader&>(self).file();
            return NestedValues(*file->archive,
                                read.is_none() ? nb::object(self.attr("__getitem__")) : nb::borrow(read));
          },
          nb::arg("read").none() = nb::none(),
          nb::sig("def nested(self, read: collections.abc.Callable[[str], object] | None = None) -> typing.Any"),
          "What the file has, nested as it was saved: the dict of a file of PyTorch, the keys of a GGUF file, the "
          "attributes of Keras. A tensor is what ``read`` returns for its name; None reads an array. Tensors that are "
          "not among the values are entries of the dict by their names.\n\n"
          "    >>> import numpy as np, tensorcask as tc\n"
          "    >>> _ = tc.save('n.safetensors', {'w': np.ones(2)}, metadata={'step': '7'}, overwrite=True)\n"
          "    >>> tc.open('n.safetensors').nested(read=str.upper)['w']\n"
          "    'W'")
      .def("close", &Reader::Close, "Arrays that were read stay. A second call does nothing.")
      .def_prop_ro("closed", &Reader::is_closed)
      .def_prop_ro(
          "path", [](const Reader& self) { return ToText(self.file()->archive->path()); },
          nb::sig("def path(self) -> str"))
      .def_prop_ro(
          "format", [](const Reader& self) { return ToText(self.file()->archive->format()); },
          nb::sig("def format(self) -> str"), "``'checkpoint'``, ``'safetensors'``, ``'npz'``, ...")
      .def_prop_ro(
          "version",
          [](const Reader& self) {
            const std::optional<TensorVersion>& version = self.file()->version;
            return version.has_value() ? ToVersion(*version) : nb::none();
          },
          nb::sig("def version(self) -> tensorcask.Version | None"),
          "Of the tensors of a server (``grpc://``): its step, and an id. None for files.")
      .def_prop_ro(
          "metadata", [](const Reader& self) { return ToDict(self.file()->archive->file_metadata()); },
          nb::sig("def metadata(self) -> dict[str, str]"), "The text that the file keeps beside its tensors.")
      .def_prop_ro(
          "notes",
          [](const Reader& self) {
            nb::list notes;
            for (const std::string& note : self.file()->archive->notes()) notes.append(ToText(note));
            return notes;
          },
          nb::sig("def notes(self) -> list[str]"), "Sentences about what is unusual and harms nothing.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Reader"))
      .def(
          "__exit__", [](Reader& self, nb::args) { self.Close(); },
          nb::sig("def __exit__(self, *exception: object) -> None"))
      .def(
          "__repr__",
          [](const Reader& self) {
            if (self.is_closed()) return ToText("<tensorcask.Reader, closed>");
            const ArchiveReader& archive = *self.file()->archive;
            return nb::object(
                nb::str("<tensorcask.Reader of {!r}, {}, {} tensors>")
                    .format(ToText(archive.path()), ToText(archive.format()), self.file()->entries.size()));
          },
          nb::sig("def __repr__(self) -> str"))
      .def(
          "_repr_html_", [](const Reader& self) { return ToText(TableOf(self)); },
          nb::sig("def _repr_html_(self) -> str"));
}

}  // namespace

std::shared_ptr<const OpenFile> OpenFileOf(nb::handle reader) {
  if (!nb::isinstance<Reader>(reader)) {
    PyErr_Format(PyExc_TypeError, "wanted a tensorcask.Reader, not %R", reader.type().ptr());
    throw nb::python_error();
  }
  return nb::cast<const Reader&>(reader).file();
}

nb::object MakeReader(std::shared_ptr<const ArchiveReader> archive, const TensorVersion& version) {
  return nb::cast(Reader(std::move(archive), version));
}

void DefineReader(nb::module_& m) {
  DefineEntry(m);
  DefineSlice(m);
  DefineReaderClass(m);
  m.def(
      "open",
      [](nb::handle path, const nb::kwargs& reading) {
        return Reader(FromOpenArguments(path, reading, /*takes_file_system=*/true));
      },
      nb::arg("path"), nb::arg("reading"),
      nb::sig("def open(path: " TENSORCASK_READABLE
              ", *, " TENSORCASK_READ_FILE_SYSTEM TENSORCASK_READ_CREDENTIALS TENSORCASK_READ_ARGUMENTS ") -> Reader"),
      "Opens a file with tensors; reads its index alone.\n\n"
      "``path`` is a file or the prefix of a checkpoint, or a folder with one of them. Instead of a path it can be the "
      "bytes of one file (any object with the buffer protocol: they are not copied, and must not change meanwhile) or "
      "a file object with ``read`` and ``seek``, which is read from its first byte, whatever its position is, by one "
      "thread at a time. The content tells the format; "
      "``format`` names it where it cannot. ``base`` is the checkpoint that deltas were made against, if it is not in "
      "their folder. Without ``verify`` tensors are read although their checksum does not match, as in a file that "
      "another program changed in place. ``lenient`` accepts known, harmless breaches of a format's rules. Of ONNX "
      "models, ``constants`` lists the values of Constant nodes, too, and without ``links`` side files that are links "
      "are refused. With ``stored``, tensors of GGUF in blocks are the bytes of their blocks, as uint8. With "
      "``opaque_objects``, files of ``torch.save`` may name classes that this library does not know: their objects are "
      "values with the name of the class, and nothing is called. ``limits`` changes what a file may cost, by the names "
      "that messages say: ``{'max_entries': 50_000_000}``.\n\n"
      "``s3://bucket/key`` is a file of an object store, with the settings of the AWS_* variables, and "
      "``https://host/path`` one of a web server. ``filesystem`` is a file system of fsspec, to which ``path`` then "
      "belongs: its ``info`` and ``cat_ranges`` are called, from any thread. A file that is replaced while it is read "
      "is an OSError (SystemCallError, errno ESTALE).\n\n"
      "``grpc://HOST:PORT``, or ``grpcs://`` with TLS, has the tensors of a server (``tensorcask.serve``), and "
      "``grpc://HOST:PORT/NAME`` those whose names begin with ``NAME/``, without that. The reader is of one version of "
      "them: once the server has another one, reading is an AbortedError. ``credentials`` are those of TLS.\n\n"
      "Raises FileNotFoundError, and ValueError (DataLossError, InvalidArgumentError) for a file that is damaged or "
      "has no tensors, and for a file object that cannot seek. What a file object raises later is an OSError with its "
      "text (SystemCallError).\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> _ = tc.save('model.npz', {'w': np.eye(2)}, overwrite=True)\n"
      "    >>> with tc.open('model.npz') as reader:\n"
      "    ...     print(list(reader), reader.entry('w').shape, reader['w'][1])\n"
      "    ['w'] (2, 2) [0. 1.]\n");
  m.def("load_tensors", &Load, nb::arg("path"), nb::arg("names").none(), nb::arg("mmap"), nb::arg("as_tensor"),
        nb::arg("threads").none(), nb::arg("reading"),
        nb::sig("def load_tensors(path: object, names: object, mmap: bool, as_tensor: bool, threads: object, "
                "**reading: object) -> dict[str, typing.Any]"));
}

}  // namespace tensorcask::python
