#include "tensorcask/python/src/byte_sources.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/process_mutex.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

// Runs fn(), which gives something back to Python, on whatever thread. While the interpreter exits it does nothing: the
// memory stays. An exception of this thread stays, too.
template <typename Fn>
void ReleaseWithGil(Fn&& fn) {
  if (!CanTakeGil()) return;
  const nb::gil_scoped_acquire acquire;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  fn();
  PyErr_Restore(type, value, traceback);
}

std::string TypeName(nb::handle object) { return TextOf(object.type().attr("__name__")); }

// ---- Buffers --------------------------------------------------------------------------------------------------------

std::shared_ptr<const ByteSource> FromBuffer(nb::handle object) {
  auto held = std::make_shared<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), held.get(), PyBUF_SIMPLE) != 0) throw nb::python_error();
  TensorBuffer::External memory;
  memory.data = held->buf;
  memory.size_bytes = static_cast<size_t>(held->len);
  memory.writable = false;
  memory.release = [held] { ReleaseWithGil([&] { PyBuffer_Release(held.get()); }); };
  RefPtr<TensorBuffer> bytes = TensorBuffer::WrapExternal(std::move(memory));
  return MakeMemorySource(TypeName(object), std::move(bytes));
}

// ---- File objects ---------------------------------------------------------------------------------------------------

// The bytes of what `read` returned.
class ReadBytes {
 public:
  explicit ReadBytes(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~ReadBytes() { PyBuffer_Release(&buffer_); }
  ReadBytes(const ReadBytes&) = delete;
  ReadBytes& operator=(const ReadBytes&) = delete;

  absl::string_view bytes() const { return {static_cast<const char*>(buffer_.buf), static_cast<size_t>(buffer_.len)}; }

 private:
  Py_buffer buffer_{};
};

// "ValueError: I/O operation on closed file". Never fails, whatever the exception says of itself.
std::string Describe(const nb::python_error& error) {
  try {
    return absl::StrCat(TypeName(error.value()), ": ", TextOf(error.value()));
  } catch (const std::exception&) {
    return "an exception that cannot be printed";
  }
}

class FileObject final : public ByteSource {
 public:
  // Throws what the object raises, and ValueError if it cannot seek.
  FileObject(nb::handle object, std::string name)
      : object_(nb::borrow(object)), name_(std::move(name)), size_bytes_(SizeOf(object, name_)) {}
  ~FileObject() override {
    ReleaseWithGil([&] { object_.reset(); });
    object_.release();
  }

  const std::string& name() const override { return name_; }
  uint64_t size_bytes() const override { return size_bytes_; }

  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    if (offset > size_bytes_ || out.size() > size_bytes_ - offset) {
      return absl::DataLossError(
          absl::StrCat(name_, ": ", out.size(), " bytes at ", offset, " were requested; the file has ", size_bytes_));
    }
    if (out.empty()) return absl::OkStatus();
    if (!KeepGoing() || !CanTakeGil()) return absl::CancelledError(absl::StrCat(name_, ": reading was interrupted"));
    const nb::gil_scoped_acquire acquire;
    if (reading_ == std::this_thread::get_id()) {
      return absl::FailedPreconditionError(
          absl::StrCat(name_, ": its method read uses the archive that it is read for"));
    }
    if (!mutex_.try_lock()) {
      // The thread that reads needs the GIL to come to an end. Who waits for the mutex has no GIL, so that who has the
      // mutex gets it.
      const ReleasedGil release;
      mutex_.lock();
    }
    reading_ = std::this_thread::get_id();
    const absl::Status status = ReadLocked(offset, out);
    reading_ = std::thread::id();
    mutex_.unlock();
    if (status.ok() || absl::IsDataLoss(status)) return status;
    return MarkResourceFailure(Annotate(status, absl::StrCat(name_, ": cannot read at ", offset)));
  }

 private:
  // The position behind the last byte.
  static uint64_t SizeOf(nb::handle object, const std::string& name) {
    const auto is_true = [](const nb::object& answer) { return PyObject_IsTrue(answer.ptr()) == 1; };
    if (!nb::hasattr(object, "seek") || (nb::hasattr(object, "seekable") && !is_true(object.attr("seekable")()))) {
      Raise(absl::InvalidArgumentError(
          absl::StrCat(name, ": cannot seek; read it first: open(file.read()), or open(io.BytesIO(file.read()))")));
    }
    constexpr int kFromEnd = 2;
    object.attr("seek")(0, kFromEnd);
    const nb::object end = object.attr("tell")();
    const int64_t size = PyLong_Check(end.ptr()) ? PyLong_AsLongLong(end.ptr()) : -1;
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    if (size < 0) {
      Raise(absl::InvalidArgumentError(
          absl::StrCat(name, ": its end is at ", TextOf(nb::repr(end)), ", which is no position of a file")));
    }
    return static_cast<uint64_t>(size);
  }

  // With the GIL, while no other thread reads.
  absl::Status ReadLocked(uint64_t offset, absl::Span<char> out) const {
    try {
      object_.attr("seek")(offset);
      while (!out.empty()) {
        CASK_ASSIGN_OR_RETURN(const size_t got, ReadSome(offset, out));
        out.remove_prefix(got);
        offset += got;
        if (!KeepGoing()) return absl::CancelledError("it was interrupted");
      }
      return absl::OkStatus();
    } catch (nb::python_error& error) {
      if (EndWork(error)) return absl::CancelledError("it was interrupted");
      return absl::UnknownError(Describe(error));
    } catch (const std::exception& error) {  // of the binder
      return absl::UnknownError(error.what());
    }
  }

  // Reads at least one byte. The bytes are copied: an object that got this memory could write to it later.
  absl::StatusOr<size_t> ReadSome(uint64_t offset, absl::Span<char> out) const {
    constexpr size_t kMostBytes = size_t{1} << 20;
    const size_t wanted = std::min(out.size(), kMostBytes);
    const nb::object read = object_.attr("read")(wanted);
    if (PyUnicode_Check(read.ptr())) {
      return absl::InvalidArgumentError("it was opened as text; open it with mode 'rb'");
    }
    if (read.is_none()) {
      return absl::UnavailableError("it has no bytes now, and does not wait for them");
    }
    const ReadBytes got(read);
    const absl::string_view bytes = got.bytes();
    if (bytes.empty()) {
      return absl::DataLossError(
          absl::StrCat(name_, ": had ", size_bytes_, " bytes when it was opened, and now ends at ", offset));
    }
    if (bytes.size() > wanted) {
      return absl::InvalidArgumentError(
          absl::StrCat("its method read returned ", bytes.size(), " bytes; wanted at most ", wanted));
    }
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return bytes.size();
  }

  nb::object object_;
  const std::string name_;
  const uint64_t size_bytes_;
  mutable ProcessMutex mutex_;  // of the position of the file
  mutable std::atomic<std::thread::id> reading_{std::thread::id()};
};

// What messages call the file: its attribute `name`, if that can be the name of a file.
std::string NameOf(nb::handle file) {
  const nb::object name = nb::getattr(file, "name", nb::none());
  if (PyUnicode_Check(name.ptr())) {
    std::string text = FromText(name, "name");
    if (CheckPath(text).ok()) return text;
  }
  return TypeName(file);
}

}  // namespace

std::shared_ptr<const ByteSource> FromBytesOrFile(nb::handle object) {
  if (PyUnicode_Check(object.ptr()) || nb::hasattr(object, "__fspath__")) return nullptr;
  if (PyObject_CheckBuffer(object.ptr()) != 0) return FromBuffer(object);
  if (nb::hasattr(object, "read")) return std::make_shared<const FileObject>(object, NameOf(object));
  PyErr_Format(PyExc_TypeError, "wanted a path, bytes or a file object with read and seek, not %R",
               object.type().ptr());
  throw nb::python_error();
}

}  // namespace tensorcask::python
