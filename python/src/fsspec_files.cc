#include "tensorcask/python/src/fsspec_files.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/tensor/base/checked_math.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{8} << 20;
constexpr int kPiecesInCall = 16;
constexpr uint64_t kBlockBytes = uint64_t{1} << 20;  // of a small read

thread_local std::string last_detail;

IoResult FailWith(IoResult result, std::string detail) {
  last_detail = std::move(detail);
  return result;
}

// What tells two versions of a file apart, in what `info` of different file systems returns.
constexpr const char* kVersionKeys[] = {"ETag",        "etag",  "VersionId",    "version_id", "generation", "md5Hash",
                                        "content_md5", "mtime", "LastModified", "updated",    "modified",   "created"};

// The errno of what a file system raises.
IoResult ErrnoOf(const nb::python_error& error) {
  const std::pair<PyObject*, int> classes[] = {
      {PyExc_FileNotFoundError, ENOENT},       {PyExc_FileExistsError, EEXIST}, {PyExc_PermissionError, EACCES},
      {PyExc_IsADirectoryError, EISDIR},       {PyExc_TimeoutError, ETIMEDOUT}, {PyExc_ConnectionError, ECONNRESET},
      {PyExc_NotImplementedError, EOPNOTSUPP}, {PyExc_MemoryError, ENOMEM}};
  for (const auto& [type, number] : classes) {
    if (error.matches(type)) return -number;
  }
  return -EIO;
}

// "ValueError: ...". Never fails, whatever the exception says of itself.
std::string Describe(const nb::python_error& error) {
  try {
    return absl::StrCat(TextOf(error.value().type().attr("__name__")), ": ", TextOf(error.value()));
  } catch (const std::exception&) {
    return "an exception that cannot be printed";
  }
}

// Runs fn() with the GIL, on whatever thread.
template <typename Fn>
IoResult WithPython(Fn&& fn) {
  if (!KeepGoing() || !CanTakeGil()) return FailWith(-ECANCELED, "");
  const nb::gil_scoped_acquire acquire;
  try {
    return fn();
  } catch (nb::python_error& error) {
    if (EndWork(error)) return FailWith(-ECANCELED, "");
    return FailWith(ErrnoOf(error), Describe(error));
  } catch (const std::exception& error) {  // of the binder
    return FailWith(-EIO, error.what());
  }
}

// The bytes of an object with the buffer protocol.
class Bytes {
 public:
  explicit Bytes(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~Bytes() { PyBuffer_Release(&buffer_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  absl::string_view bytes() const { return {static_cast<const char*>(buffer_.buf), static_cast<size_t>(buffer_.len)}; }

 private:
  Py_buffer buffer_{};
};

struct Version {
  uint64_t size = 0;
  std::string tag;
};

// A file that is open to read.
struct OpenFileOfPython {
  std::string path;
  Version version;
  std::mutex mutex;
  uint64_t block_offset = 0;
  std::shared_ptr<const std::string> block;  // of the last small read; null: none
};

class FsspecFiles final : public FileSystem {
 public:
  explicit FsspecFiles(nb::handle object) : object_(nb::borrow(object)) {}
  ~FsspecFiles() override {
    if (CanTakeGil()) {
      const nb::gil_scoped_acquire acquire;
      object_.reset();
    }
    object_.release();
  }

  IoResult OpenToRead(const std::string& path) override {
    auto file = std::make_shared<OpenFileOfPython>();
    file->path = path;
    FileInfo info;
    const IoResult found = Info(path, &info, &file->version);
    if (found < 0) return found;
    if (info.type != FileInfo::Type::kRegular) return FailWith(-EISDIR, "");
    const std::lock_guard<std::mutex> lock(mutex_);
    reading_[next_handle_] = std::move(file);
    return next_handle_++;
  }

  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    const std::shared_ptr<OpenFileOfPython> file = Find(handle);
    if (file == nullptr) return FailWith(-EBADF, "");
    if (offset >= file->version.size || out.empty()) return 0;
    out = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), file->version.size - offset)));
    const ReadRange range = {offset, out};
    const IoResult read = out.size() < kBlockBytes ? ReadSmall(file.get(), range) : Read(*file, {&range, 1});
    return read < 0 ? read : static_cast<IoResult>(out.size());
  }

  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    const std::shared_ptr<OpenFileOfPython> file = Find(handle);
    if (file == nullptr) return FailWith(-EBADF, "");
    std::vector<ReadRange> large;
    for (const ReadRange& range : ranges) {
      if (!RangeFits(range.offset, range.out.size(), file->version.size)) {
        return FailWith(-ENODATA, "");
      }
      if (range.out.size() >= kBlockBytes || ranges.size() > 1) {
        large.push_back(range);
      } else if (const IoResult read = ReadSmall(file.get(), range); read < 0) {
        return read;
      }
    }
    return Read(*file, large);
  }

  IoResult SizeOf(IoResult handle) override {
    if (const std::shared_ptr<OpenFileOfPython> file = Find(handle)) return static_cast<IoResult>(file->version.size);
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto written = writing_.find(handle);
    if (written == writing_.end()) return FailWith(-EBADF, "");
    return static_cast<IoResult>(new_files_.at(written->second).bytes.size());
  }

  IoResult Close(IoResult handle) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return reading_.erase(handle) + writing_.erase(handle) > 0 ? 0 : FailWith(-EBADF, "");
  }

  IoResult Describe(const std::string& path, FileInfo* info) override {
    Version version;
    return Info(path, info, &version);
  }

  IoResult List(const std::string& path, std::vector<std::string>* names) override {
    names->clear();
    const IoResult listed = WithPython([&]() -> IoResult {
      Forget(path);
      nb::kwargs arguments;
      arguments["detail"] = false;
      const nb::object found = object_.attr("ls")(Stripped(path), **arguments);
      for (const nb::handle one : nb::iter(found)) {
        std::string name = FromText(one, "a name in a folder");
        while (!name.empty() && name.back() == '/') name.pop_back();
        name.erase(0, name.rfind('/') + 1);  // npos + 1 is 0
        if (!name.empty()) names->push_back(std::move(name));
      }
      return 0;
    });
    std::sort(names->begin(), names->end());
    names->erase(std::unique(names->begin(), names->end()), names->end());
    return listed;
  }

  // ---- Writing ------------------------------------------------------------------------------------------------------

  IoResult CreateNew(const std::string&) override { return FailWith(-EOPNOTSUPP, ""); }

  IoResult CreateToPublish(const std::string& path, const std::string& final_path) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!new_files_.try_emplace(path, NewFile{final_path, "", 0}).second) return FailWith(-EEXIST, "");
    writing_[next_handle_] = path;
    return next_handle_++;
  }

  IoResult Append(IoResult handle, absl::string_view bytes) override {
    return Write(handle, [&](NewFile* file) {
      WriteTo(file, file->appended, bytes);
      file->appended += bytes.size();
      return static_cast<IoResult>(bytes.size());
    });
  }

  IoResult WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) override {
    return Write(handle, [&](NewFile* file) {
      WriteTo(file, offset, bytes);
      return static_cast<IoResult>(bytes.size());
    });
  }

  IoResult Rename(const std::string& from, const std::string& to, OnExisting on_existing) override {
    NewFile file;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = new_files_.find(from);
      if (found == new_files_.end() || found->second.final_path != to) return FailWith(-EXDEV, "");
      file = std::move(found->second);
      found->second = {to, "", 0};
    }
    return WithPython([&]() -> IoResult {
      const nb::bytes bytes(file.bytes.data(), file.bytes.size());
      std::string().swap(file.bytes);
      SetMayAppear(from, true);
      const IoResult piped = Pipe(to, bytes, on_existing);
      const std::string why = piped < 0 ? last_detail : "";
      // An exception proves nothing: the answer may be lost, or be that to a request which the client repeated.
      const IoResult compared = piped < 0 ? Compare(to, {bytes.c_str(), bytes.size()}) : 0;
      if (compared == 0) {
        const std::lock_guard<std::mutex> lock(mutex_);
        new_files_.erase(from);
        if (piped < 0) doubtful_.insert(to);
        return 0;
      }
      if (compared != -ENOENT && compared != -ESTALE) {
        return FailWith(piped == -EEXIST || piped == -ENOENT ? -EIO : piped,
                        absl::StrCat(why, "; whether the file was written is unknown: ", last_detail));
      }
      if (IsRefusal(piped)) SetMayAppear(from, false);
      return FailWith(piped, why);
    });
  }

  IoResult Remove(const std::string& path) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (const auto found = new_files_.find(path); found != new_files_.end()) {
        const bool may_appear = found->second.may_appear;
        new_files_.erase(found);
        return may_appear ? FailWith(-EAGAIN, "its last request may take effect later") : 0;
      }
      if (doubtful_.count(path) > 0) return FailWith(-EAGAIN, "another writer may have written it");
    }
    return WithPython([&]() -> IoResult {
      object_.attr("rm_file")(Stripped(path));
      Forget(path);
      return 0;
    });
  }

  IoResult Reserve(IoResult, uint64_t) override { return FailWith(-EOPNOTSUPP, ""); }
  IoResult Sync(IoResult) override { return 0; }
  IoResult SetPublic(IoResult) override { return FailWith(-EOPNOTSUPP, ""); }
  IoResult Map(IoResult, uint64_t, size_t, const char**) override { return FailWith(-ENODEV, ""); }
  IoResult Unmap(const char*, size_t) override { return FailWith(-EINVAL, ""); }
  IoResult Link(const std::string&, const std::string&) override { return FailWith(-EOPNOTSUPP, ""); }
  IoResult Lock(const std::string&) override { return FailWith(-EOPNOTSUPP, ""); }
  IoResult MakeFolder(const std::string&) override { return 0; }  // files make theirs
  IoResult SyncFolder(const std::string&) override { return 0; }
  ReadShape read_shape() const override { return {kPieceBytes, kPiecesInCall, kBlockBytes}; }
  std::string LastDetail() const override { return last_detail; }

 private:
  struct NewFile {
    std::string final_path;
    std::string bytes;
    uint64_t appended = 0;    // where Append goes on
    bool may_appear = false;  // pipe_file has raised an exception, and may have written the file, or write it later
  };

  std::shared_ptr<OpenFileOfPython> Find(IoResult handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = reading_.find(handle);
    return found == reading_.end() ? nullptr : found->second;
  }

  // The file grows if the bytes end past its end; a gap is filled with zeros.
  static void WriteTo(NewFile* file, uint64_t offset, absl::string_view bytes) {
    std::string& all = file->bytes;
    if (offset > all.max_size() - bytes.size()) throw std::bad_alloc();
    all.resize(std::max<size_t>(all.size(), static_cast<size_t>(offset) + bytes.size()));
    std::copy(bytes.begin(), bytes.end(), all.begin() + static_cast<ptrdiff_t>(offset));
  }

  template <typename Fn>
  IoResult Write(IoResult handle, Fn&& fn) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = writing_.find(handle);
    if (found == writing_.end()) return FailWith(-EBADF, "");
    try {
      return fn(&new_files_.at(found->second));
    } catch (const std::exception&) {  // the whole file is in memory
      return FailWith(-ENOMEM, "");
    }
  }

  void SetMayAppear(const std::string& temporary_path, bool may_appear) {
    const std::lock_guard<std::mutex> lock(mutex_);
    new_files_.at(temporary_path).may_appear = may_appear;
  }

  // True for errors with which nothing is written later.
  static bool IsRefusal(IoResult result) {
    return result == -EEXIST || result == -ENOENT || result == -EACCES || result == -EISDIR || result == -EOPNOTSUPP;
  }

  // ---- With the GIL -------------------------------------------------------------------------------------------------

  nb::object Stripped(const std::string& path) const {
    const nb::object text = ToText(path);
    return nb::hasattr(object_, "_strip_protocol") ? object_.attr("_strip_protocol")(text) : text;
  }

  // File systems of fsspec remember what they were told.
  void Forget(const std::string& path) const {
    if (nb::hasattr(object_, "invalidate_cache")) object_.attr("invalidate_cache")(Stripped(path));
  }

  // ---- Without ------------------------------------------------------------------------------------------------------

  IoResult Pipe(const std::string& path, const nb::bytes& bytes, OnExisting on_existing) const {
    return WithPython([&]() -> IoResult {
      nb::kwargs arguments;
      arguments["mode"] = on_existing == OnExisting::kRefuse ? "create" : "overwrite";
      object_.attr("pipe_file")(Stripped(path), bytes, **arguments);
      Forget(path);
      return 0;
    });
  }

  // 0 if the file has these bytes, -ESTALE if it has others, -ENOENT if there is none. Another error: that is unknown.
  IoResult Compare(const std::string& path, absl::string_view bytes) const {
    OpenFileOfPython file;
    file.path = path;
    FileInfo info;
    const IoResult found = Info(path, &info, &file.version);
    if (found < 0) return found;
    if (info.type != FileInfo::Type::kRegular || info.size_bytes != bytes.size()) return -ESTALE;
    std::string piece;
    for (size_t done = 0; done < bytes.size(); done += piece.size()) {
      const absl::string_view wanted = bytes.substr(done, kPieceBytes);
      piece.resize(wanted.size());
      const ReadRange range = {done, absl::MakeSpan(&piece[0], piece.size())};
      if (const IoResult read = Read(file, {&range, 1}); read < 0) return read;
      if (piece != wanted) return -ESTALE;
    }
    return 0;
  }

  IoResult Info(const std::string& path, FileInfo* info, Version* version) const {
    return WithPython([&]() -> IoResult {
      Forget(path);
      const nb::object found = object_.attr("info")(Stripped(path));
      const auto get = [&](const char* key) { return nb::object(found.attr("get")(key, nb::none())); };
      FileInfo described;
      const nb::object type = get("type");
      if (PyUnicode_Check(type.ptr()) && TextOf(type) == "directory") {
        described.type = FileInfo::Type::kFolder;
        *info = described;
        return 0;
      }
      const nb::object size = get("size");
      const int64_t bytes = PyLong_Check(size.ptr()) ? PyLong_AsLongLong(size.ptr()) : -1;
      if (PyErr_Occurred() != nullptr) throw nb::python_error();
      if (bytes < 0) {
        return FailWith(-EOPNOTSUPP,
                        absl::StrCat("its info has the size ", TextOf(nb::repr(size)), "; wanted the number of bytes"));
      }
      described.size_bytes = version->size = static_cast<uint64_t>(bytes);
      version->tag.clear();
      for (const char* const key : kVersionKeys) {
        const nb::object value = get(key);
        if (!value.is_none()) absl::StrAppend(&version->tag, key, " ", TextOf(nb::str(value)), "; ");
      }
      *info = described;
      return 0;
    });
  }

  // What was read is of the version that was opened.
  IoResult CheckVersion(const OpenFileOfPython& file) const {
    FileInfo info;
    Version now;
    const IoResult found = Info(file.path, &info, &now);
    if (found < 0 && found != -ENOENT) return found;
    if (found >= 0 && now.size == file.version.size && now.tag == file.version.tag) return 0;
    return FailWith(-ESTALE,
                    found < 0 ? "the file was removed while it was read"
                              : absl::StrCat("the file was replaced while it was read: it was ", file.version.size,
                                             " bytes, ", file.version.tag, "and is ", now.size, " bytes, ", now.tag));
  }

  IoResult ReadSmall(OpenFileOfPython* file, const ReadRange& range) const {
    std::shared_ptr<const std::string> block;
    uint64_t start = 0;
    {
      const std::lock_guard<std::mutex> lock(file->mutex);
      block = file->block;
      start = file->block_offset;
    }
    const bool is_there = block != nullptr && range.offset >= start && range.offset - start <= block->size() &&
                          range.out.size() <= block->size() - (range.offset - start);
    if (!is_there) {
      const uint64_t size = file->version.size;
      // The end of a file often comes first; what is before it comes next.
      start = size <= kBlockBytes ? 0 : std::min(range.offset, size - kBlockBytes);
      auto fresh = std::make_shared<std::string>(static_cast<size_t>(std::min(size, kBlockBytes)), '\0');
      const ReadRange whole = {start, absl::MakeSpan(&(*fresh)[0], fresh->size())};
      const IoResult read = Read(*file, {&whole, 1});
      if (read < 0) return read;
      block = fresh;
      const std::lock_guard<std::mutex> lock(file->mutex);
      file->block = block;
      file->block_offset = start;
    }
    std::memcpy(range.out.data(), block->data() + (range.offset - start), range.out.size());
    return 0;
  }

  IoResult Read(const OpenFileOfPython& file, absl::Span<const ReadRange> ranges) const {
    std::vector<ReadRange> pieces;
    for (const ReadRange& range : ranges) {
      for (size_t done = 0; done < range.out.size();) {
        const auto bytes = static_cast<size_t>(std::min<uint64_t>(range.out.size() - done, kPieceBytes));
        pieces.push_back({range.offset + done, range.out.subspan(done, bytes)});
        done += bytes;
      }
    }
    for (size_t i = 0; i < pieces.size(); i += kPiecesInCall) {
      const IoResult read = ReadPieces(file, absl::MakeConstSpan(pieces).subspan(i, kPiecesInCall));
      if (read < 0) return read;
    }
    return pieces.empty() ? 0 : CheckVersion(file);
  }

  IoResult ReadPieces(const OpenFileOfPython& file, absl::Span<const ReadRange> pieces) const {
    return WithPython([&]() -> IoResult {
      nb::list paths, starts, ends;
      const nb::object path = Stripped(file.path);
      for (const ReadRange& piece : pieces) {
        paths.append(path);
        starts.append(piece.offset);
        ends.append(piece.offset + piece.out.size());
      }
      nb::kwargs arguments;
      arguments["on_error"] = "raise";
      const nb::object answer = object_.attr("cat_ranges")(paths, starts, ends, **arguments);
      size_t count = 0;
      for (const nb::handle one : nb::iter(answer)) {
        if (count == pieces.size()) return FailWith(-EBADMSG, "cat_ranges returned more pieces than were wanted");
        if (PyExceptionInstance_Check(one.ptr())) {
          PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(one.ptr())), one.ptr());
          throw nb::python_error();
        }
        const Bytes got(one);
        const ReadRange& piece = pieces[count++];
        if (got.bytes().size() != piece.out.size()) {
          return FailWith(-EBADMSG, absl::StrCat("cat_ranges returned ", got.bytes().size(), " bytes for ",
                                                 piece.out.size(), " at ", piece.offset));
        }
        std::memcpy(piece.out.data(), got.bytes().data(), got.bytes().size());
      }
      if (count == pieces.size()) return 0;
      return FailWith(-EBADMSG, absl::StrCat("cat_ranges returned ", count, " pieces; wanted ", pieces.size()));
    });
  }

  nb::object object_;
  std::mutex mutex_;  // never held while Python works
  std::map<IoResult, std::shared_ptr<OpenFileOfPython>> reading_;
  std::map<IoResult, std::string> writing_;   // the temporary path of a handle
  std::map<std::string, NewFile> new_files_;  // by temporary path
  std::set<std::string> doubtful_;            // have the right bytes, which another writer may have written
  IoResult next_handle_ = 3;
};

}  // namespace

std::shared_ptr<FileSystem> FromFileSystem(nb::handle object, bool writes) {
  if (object.is_none()) return nullptr;
  for (const char* const method : {"info", "cat_ranges", "ls"}) {
    if (nb::hasattr(object, method)) continue;
    PyErr_Format(PyExc_TypeError, "filesystem must be a file system of fsspec; %R has no method %s",
                 object.type().ptr(), method);
    throw nb::python_error();
  }
  if (writes) {
    const nb::object missing = nb::module_::import_("tensorcask._filesystems").attr("missing_to_create")(object);
    if (!missing.is_none()) Raise(absl::UnimplementedError(TextOf(missing)));
  }
  return std::make_shared<FsspecFiles>(object);
}

}  // namespace tensorcask::python
