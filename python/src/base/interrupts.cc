#include "tensorcask/python/src/base/interrupts.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <exception>
#include <thread>
#include <utility>

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kCheckEvery{50};
constexpr std::chrono::milliseconds kTellEvery{100};
constexpr size_t kReadBytes = size_t{16} << 20;  // between two checks

std::atomic<unsigned long> main_thread{0};  // as threading.get_ident() returns it
std::atomic<bool> exiting{false};
thread_local std::exception_ptr interruption;  // what ends the work of this thread; null: nothing
thread_local int works = 0;                    // calls of WithoutGil, one inside the other
thread_local Clock::time_point last_check;

std::atomic<int> returning{0};  // threads that acquire the GIL again

// Called by the interpreter before it ends threads.
void StopOtherThreads() {
  exiting = true;
  const nb::gil_scoped_release release;
  constexpr int kMostWaits = 1000;
  for (int i = 0; i < kMostWaits && returning > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class Files final : public ForwardingFileSystem {
 public:
  Files() : ForwardingFileSystem(FileSystem::Posix()) {}

  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    if (!KeepGoing()) return -ECANCELED;
    return ForwardingFileSystem::ReadAt(handle, offset, out.first(std::min(out.size(), kReadBytes)));
  }
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    return KeepGoing() ? ForwardingFileSystem::ReadManyAt(handle, ranges) : -ECANCELED;
  }
};

}  // namespace

void WatchInterpreter(nb::module_& m) {
  main_thread = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  m.def("_after_fork", [] { main_thread = PyThread_get_thread_ident(); });  // the child has this thread alone
  nb::module_::import_("os").attr("register_at_fork")(nb::arg("after_in_child") = m.attr("_after_fork"));
  m.def("_at_exit", &StopOtherThreads);
  nb::module_::import_("atexit").attr("register")(m.attr("_at_exit"));
}

ReleasedGil::ReleasedGil() : state_(PyEval_SaveThread()) {}

ReleasedGil::~ReleasedGil() {
  ++returning;
  if (exiting && !RunsSignalHandlers()) {
    --returning;
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  PyEval_RestoreThread(state_);
  --returning;
}

bool CanTakeGil() {
  if (Py_IsInitialized() == 0) return false;
  return !exiting || RunsSignalHandlers();
}

bool RunsSignalHandlers() { return PyThread_get_thread_ident() == main_thread; }

bool KeepGoing() {
  if (interruption != nullptr || !RunsSignalHandlers()) return interruption == nullptr;
  const Clock::time_point now = Clock::now();
  if (now - last_check < kCheckEvery) return true;
  last_check = now;
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() == 0) return true;
  // FinishWork throws it. Until then the work may still call Python, which must find no exception.
  interruption = std::make_exception_ptr(nb::python_error());
  return false;
}

bool EndWork(const nb::python_error& error) {
  if (works == 0 || error.matches(PyExc_Exception)) return false;
  if (interruption == nullptr) interruption = std::make_exception_ptr(error);  // FinishWork throws it
  return true;
}

Progress::Progress(nb::handle argument) {
  if (argument.is_none()) return;
  function_ = nb::hasattr(argument, "update") ? nb::object(argument.attr("update")) : nb::borrow(argument);
  if (PyCallable_Check(function_.ptr()) != 0) return;
  PyErr_Format(PyExc_TypeError, "progress must be a function of a number of bytes, or have a method update, not %R",
               argument.type().ptr());
  throw nb::python_error();
}

void Progress::Tell() {
  const uint64_t bytes = bytes_ - told_bytes_;
  told_bytes_ = bytes_;
  last_call_ = Clock::now();
  function_(bytes);
}

bool Progress::Report(uint64_t bytes) {
  bytes_ = bytes;
  if (error_ != nullptr || !KeepGoing()) return false;
  if (!function_.is_valid() || Clock::now() - last_call_ < kTellEvery || !CanTakeGil()) return true;
  const nb::gil_scoped_acquire acquire;
  try {
    Tell();
  } catch (const nb::python_error&) {
    error_ = std::current_exception();
  }
  return error_ == nullptr;
}

void Progress::Finish(bool is_ok) {
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  if (is_ok && function_.is_valid() && bytes_ > told_bytes_) Tell();
}

namespace internal {

void StartWork() {
  ++works;
  last_check = Clock::now();
}

void FinishWork() {
  --works;
  if (interruption != nullptr) std::rethrow_exception(std::exchange(interruption, nullptr));
}

}  // namespace internal

FileSystem* InterruptibleFiles() {
  static Files* const files = new Files;
  return files;
}

}  // namespace tensorcask::python
