// Work without the GIL that ends when the user presses Ctrl-C.
//
//   options.progress = [](uint64_t) { return KeepGoing(); };
//   absl::StatusOr<Tensor> tensor = WithoutGil([&] { return archive.Read(name); });   // throws KeyboardInterrupt

#ifndef TENSORCASK_PYTHON_SRC_BASE_INTERRUPTS_H_
#define TENSORCASK_PYTHON_SRC_BASE_INTERRUPTS_H_

#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <future>

#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"

namespace tensorcask::python {

// Remembers the main thread, also in a child of fork(2): Python runs signal handlers there. At the exit of the
// interpreter, other threads stop asking for the GIL (CanTakeGil).
void WatchInterpreter(nanobind::module_& m);

// Releases the GIL. A daemon thread that would acquire it again while the interpreter exits stops for ever instead:
// Python 3.11 would end the thread in the middle of C++.
class ReleasedGil {
 public:
  ReleasedGil();
  ~ReleasedGil();
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* const state_;
};

// True if this thread may acquire the GIL. False for threads of the library while the interpreter exits.
bool CanTakeGil();

// False once a signal handler has raised an exception on this thread, in this call of WithoutGil. Asks the interpreter
// a few times per second, on the thread that runs signal handlers; always true on other threads.
bool KeepGoing();

// After an exception on this thread that is no Exception (KeyboardInterrupt, SystemExit): true if a WithoutGil of this
// thread will throw it; KeepGoing is false from then on. Requires: the GIL.
bool EndWork(const nanobind::python_error& error);

// The argument `progress` of a function: None, a function of the number of bytes since its last call, or an object
// whose method `update` is that function, as that of a bar of tqdm. Called a few times per second while the work goes
// on.
//
//   Progress progress(argument);
//   options.progress = [&](uint64_t bytes) { return progress.Report(bytes); };   // instead of KeepGoing
//   const absl::Status status = WithoutGil([&] { return SaveTensors(..., options); });
//   progress.Finish(status.ok());
class Progress {
 public:
  // Throws TypeError for another object.
  explicit Progress(nanobind::handle argument);

  // `bytes` are those of all work so far. False: Ctrl-C, or an exception of the function, ends the work. Needs no GIL;
  // one caller at a time.
  bool Report(uint64_t bytes);

  // After the work, with the GIL: throws the exception of the function, else calls it for the last bytes if all is
  // well.
  void Finish(bool is_ok);

 private:
  void Tell();

  nanobind::object function_;  // null: none
  std::chrono::steady_clock::time_point last_call_ = std::chrono::steady_clock::now();
  uint64_t bytes_ = 0;
  uint64_t told_bytes_ = 0;
  std::exception_ptr error_;
};

namespace internal {
void StartWork();
void FinishWork();  // throws what a signal handler raised
}  // namespace internal

// Runs fn() without the GIL. Throws the exception of a signal handler that KeepGoing has run meanwhile.
template <typename Fn>
auto WithoutGil(Fn&& fn) {
  internal::StartWork();
  auto result = [&] {
    const ReleasedGil release;
    return fn();
  }();
  internal::FinishWork();
  return result;
}

// True on the thread that runs signal handlers.
bool RunsSignalHandlers();

// The same for fn() that only waits, and ends soon after stop(), which is called after Ctrl-C. On the thread that runs
// signal handlers, fn() runs on another one.
template <typename Fn, typename Stop>
auto WaitWithoutGil(Fn&& fn, Stop&& stop) {
  if (!RunsSignalHandlers()) return WithoutGil(fn);
  return WithoutGil([&] {
    auto result = std::async(std::launch::async, fn);
    while (result.wait_for(std::chrono::milliseconds(60)) != std::future_status::ready) {
      if (KeepGoing()) continue;
      stop();
      break;
    }
    return result.get();
  });
}

// The system's files, whose reads end with ECANCELED after Ctrl-C. Never destroyed.
FileSystem* InterruptibleFiles();

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_BASE_INTERRUPTS_H_
