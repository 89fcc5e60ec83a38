#include "tensorcask/python/src/remote.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tensorcask/python/src/arguments.h"
#include "tensorcask/python/src/arrays.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/process_mutex.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/python/src/bindings.h"
#include "tensorcask/python/src/named_arrays.h"
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

constexpr absl::Duration kMaxDelay = absl::Seconds(1);        // between two looks for a server
constexpr absl::Duration kAskEvery = absl::Milliseconds(50);  // whether the pause between them goes on

// The versions of a server, one after the other.
class Subscription {
 public:
  Subscription(std::string address, std::optional<RemoteCredentials> credentials)
      : grpc_(Grpc()), address_(std::move(address)), credentials_(std::move(credentials)) {}
  // In a child of fork(2) frees nothing: the connection is the parent's.
  ~Subscription() {
    if (!owner_.IsThisProcess()) {
      (void)archive_.release();
      return;
    }
    const ReleasedGil release;
    archive_.reset();
  }
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  // Waits for a version that is newer than the last one, and for the server. nullopt: it was stopped.
  std::optional<TensorVersion> Next(Deadline deadline) {
    absl::StatusOr<TensorVersion> next = Call<absl::StatusOr<TensorVersion>>([&] { return TakeNext(deadline); });
    if (stopped_ && absl::IsCancelled(next.status())) return std::nullopt;
    return Take(std::move(next));
  }

  // The names of the tensors of the version.
  nb::list Names() {
    const std::lock_guard<ProcessMutex> lock(mutex_);
    nb::list names;
    if (archive_ != nullptr) {
      for (const ArchiveEntry& entry : archive_->entries()) names.append(ToText(entry.name));
    }
    return names;
  }

  // Reads into the arrays, by name. Returns false if the server has another version by now, or was stopped: the arrays
  // are then unspecified.
  bool PullInto(nb::handle outs) {
    std::vector<TensorView> views;
    std::vector<PullItem> items;
    for (const nb::handle item : ItemsOf(outs, "outs")) {
      const std::string name = FromText(item[0], "the name of a tensor");
      views.push_back(FromPython(item[1], absl::StrCat("out for tensor ", Quoted(name)), Access::kWrite));
      items.push_back({name, std::nullopt, nullptr});
    }
    for (size_t i = 0; i < items.size(); ++i) items[i].out = &views[i];
    const absl::Status status = Call<absl::Status>([&]() -> absl::Status {
      if (archive_ == nullptr) return absl::FailedPreconditionError("no version was received yet");
      return grpc_.pull_into(*archive_, items, Options().pull);
    });
    if (absl::IsAborted(status) || (stopped_ && absl::IsCancelled(status))) return false;
    Check(status, About::kTensor);
    return true;
  }

  // From any thread: ends what waits, now and later.
  void Stop() { stopped_ = true; }
  bool is_stopped() const { return stopped_; }

 private:
  template <typename Result, typename Fn>
  Result Call(Fn&& fn) {
    return WithoutGil([&]() -> Result {
      const std::lock_guard<ProcessMutex> lock(mutex_);
      return fn();
    });
  }

  RemoteOptions Options() {
    RemoteOptions options;
    options.pull.keep_going = [this] { return !stopped_ && KeepGoing(); };
    return options;
  }

  absl::StatusOr<TensorVersion> TakeNext(const Deadline& deadline) {
    absl::Duration delay = absl::Milliseconds(100);
    while (true) {
      const absl::Status status = Look(deadline);
      if (status.ok()) return grpc_.version(*archive_);
      // The server may come, or publish, or draw back a version.
      const bool may_come = absl::IsUnavailable(status) || absl::IsAborted(status);
      if (!may_come || deadline.remaining() <= delay) return status;
      CASK_RETURN_IF_ERROR(Pause(delay));
      delay = std::min(2 * delay, kMaxDelay);
    }
  }

  absl::Status Look(const Deadline& deadline) {
    if (archive_ == nullptr) {
      RemoteOptions options = Options();
      options.pull.max_attempts = 1;
      CASK_ASSIGN_OR_RETURN(archive_,
                            grpc_.open(address_, options, credentials_.has_value() ? &*credentials_ : nullptr));
      return absl::OkStatus();
    }
    CASK_RETURN_IF_ERROR(grpc_.wait_for_newer(*archive_, deadline).status());
    return grpc_.refresh(archive_.get());
  }

  absl::Status Pause(absl::Duration delay) const {
    for (const Deadline end = delay; end.remaining() > absl::ZeroDuration();) {
      if (stopped_ || !KeepGoing()) return absl::CancelledError("stopped");
      absl::SleepFor(std::min(end.remaining(), kAskEvery));
    }
    return absl::OkStatus();
  }

  const OwnerProcess owner_;
  const RemoteModule& grpc_;
  const std::string address_;
  const std::optional<RemoteCredentials> credentials_;
  std::atomic<bool> stopped_{false};
  ProcessMutex mutex_;
  std::unique_ptr<ArchiveReader> archive_;  // null before the first version
};

}  // namespace

void DefineClient(nb::module_& m) {
  nb::class_<Subscription>(m, "Subscription", "The versions of a server, for ``tensorcask.follow``.")
      .def(
          "__init__",
          [](Subscription* self, nb::handle address, nb::handle credentials) {
            std::string text = FromText(address, "address");
            if (!IsRemote(text)) {
              Raise(absl::InvalidArgumentError(absl::StrCat(Quoted(text),
                                                            " is no address of a server; wanted grpc://HOST:PORT or "
                                                            "grpc://HOST:PORT/NAME")));
            }
            new (self) Subscription(std::move(text), FromCredentials(credentials));
          },
          nb::arg("address"), nb::arg("credentials").none(),
          nb::sig("def __init__(self, address: str, credentials: tensorcask.Credentials | None) -> None"))
      .def(
          "next",
          [](Subscription& self, nb::handle timeout) -> nb::object {
            const std::optional<TensorVersion> version = self.Next(FromTimeout(timeout));
            return version.has_value() ? ToVersion(*version) : nb::none();
          },
          nb::arg("timeout").none(), nb::sig("def next(self, timeout: float | None) -> tensorcask.Version | None"))
      .def("names", &Subscription::Names, nb::sig("def names(self) -> list[str]"))
      .def("pull_into", &Subscription::PullInto, nb::arg("outs"),
           nb::sig("def pull_into(self, outs: collections.abc.Mapping[str, object]) -> bool"))
      .def("stop", &Subscription::Stop)
      .def_prop_ro("stopped", &Subscription::is_stopped);
  m.def(
      "push",
      [](nb::handle address, int64_t step, nb::handle tensors, nb::handle credentials, nb::handle timeout) {
        const std::string text = FromText(address, "address");
        const RemoteModule& grpc = Grpc();
        const std::vector<NamedArray> arrays = FromNamedArrays(tensors, Access::kRead);
        const std::optional<RemoteCredentials> own = FromCredentials(credentials);
        RemoteOptions options;
        options.pull.keep_going = KeepGoing;
        if (!timeout.is_none()) options.pull.timeout = FromTimeout(timeout).remaining();
        return ToVersion(Take(WithoutGil([&] {
                                std::vector<NamedView> views;
                                for (const NamedArray& named : arrays) views.push_back({named.name, named.tensor.view});
                                return grpc.push(text, step, std::move(views), options,
                                                 own.has_value() ? &*own : nullptr);
                              }),
                              About::kTensor));
      },
      nb::arg("address"), nb::arg("step"), nb::arg("tensors"), nb::kw_only(),
      nb::arg("credentials").none() = nb::none(), nb::arg("timeout").none() = nb::none(),
      nb::sig("def push(address: str, step: int, tensors: collections.abc.Mapping[str, object], *, "
              "credentials: tensorcask.Credentials | None = None, timeout: float | None = None) -> tensorcask.Version"),
      "Sends tensors to a server, which offers these alone from then on: a worker hands its result to a parameter "
      "server. Returns the version that the server gave them.\n\n"
      "The server must accept pushes: ``serve(..., accept_pushes=True)``. It offers the new tensors when all of them "
      "have arrived, and keeps the ones before if the push breaks. Raises PermissionError if it accepts none, "
      "ConnectionError if it cannot be reached or goes away, and TimeoutError.\n\n"
      "    >>> import numpy as np, tensorcask as tc       # needs grpc\n"
      "    >>> with tc.serve({}, accept_pushes=True) as server:\n"
      "    ...     version = tc.push(server.url, 7, {'w': np.ones(2)})\n"
      "    ...     print(version.step, server.reader()['w'])\n"
      "    7 [1. 1.]\n");
}

}  // namespace tensorcask::python
