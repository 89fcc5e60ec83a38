// Work without the GIL that ends when the user presses Ctrl-C.
//
//   options.progress = [](uint64_t) { return KeepGoing(); };
//   absl::StatusOr<Tensor> tensor = WithoutGil([&] { return archive.Read(name); });   // throws KeyboardInterrupt

#ifndef TENSORCASK_PYTHON_SRC_INTERRUPTS_H_
#define TENSORCASK_PYTHON_SRC_INTERRUPTS_H_

#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>
#include <future>

#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"

namespace tensorcask::python {

// Remembers the thread that imports the module: Python runs signal handlers there. At the exit of the interpreter,
// other threads stop asking for the GIL (CanTakeGil).
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

#endif  // TENSORCASK_PYTHON_SRC_INTERRUPTS_H_
