#include "tensorcask/python/src/remote.h"

#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tensorcask/python/src/arguments.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/process_mutex.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/python/src/bindings.h"
#include "tensorcask/python/src/copy_memory.h"
#include "tensorcask/python/src/named_arrays.h"
#include "tensorcask/python/src/reader.h"
#include "tensorcask/python/src/store_files.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/rpc/follow_folder.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

// How often a wait for a set asks whether the call goes on.
constexpr absl::Duration kAskEvery = absl::Milliseconds(50);

// The arrays, for a server that goes on when the call has returned.
absl::StatusOr<std::vector<NamedView>> AsTheyAreNow(const std::vector<NamedArray>& arrays, const CopyMemory& memory) {
  const RefPtr<Allocator> allocator = MemoryForCopies(arrays, memory);
  std::vector<NamedView> views;
  for (const NamedArray& named : arrays) {
    if (!KeepGoing()) return absl::CancelledError("the publication was cancelled");
    CASK_ASSIGN_OR_RETURN(TensorView view, AsItIsNow(named, allocator));
    views.push_back({named.name, std::move(view)});
  }
  return views;
}

// What is served, and what that needs to stay alive.
struct Source {
  std::shared_ptr<FileSystem> files;  // of a folder
  std::unique_ptr<TensorSource> tensors;
  LiveTensors* live = nullptr;  // `tensors`, if it is a live set
  CopyMemory memory{/*keep=*/true};
};

class Server {
 public:
  Server(std::shared_ptr<Source> source, const TensorServerOptions& options,
         const std::optional<RemoteCredentials>& credentials)
      : source_(std::move(source)), scheme_(credentials.has_value() ? "grpcs://" : "grpc://") {
    const RemoteModule& grpc = Grpc();
    server_ = Take(WithoutGil([&] {
      return grpc.serve(source_->tensors.get(), options, credentials.has_value() ? &*credentials : nullptr);
    }));
    port_ = server_->port();
    address_ = server_->address();
    const std::lock_guard<ProcessMutex> lock(All().mutex);
    All().open.insert(this);
  }
  ~Server() {
    {
      const std::lock_guard<ProcessMutex> lock(All().mutex);
      All().open.erase(this);
    }
    Close();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const { return port_; }
  const std::string& address() const { return address_; }
  std::string url() const { return absl::StrCat(scheme_, address_); }
  bool is_closed() const { return server() == nullptr; }

  TensorVersion Publish(int64_t step, nb::handle tensors) {
    CheckOpen();
    if (source_->live == nullptr) {
      Raise(absl::FailedPreconditionError("the server has a file or a folder; wanted one of a mapping of arrays"));
    }
    const std::vector<NamedArray> arrays = FromNamedArrays(tensors, Access::kSnapshot);
    return Take(WithoutGil([&]() -> absl::StatusOr<TensorVersion> {
                  CASK_ASSIGN_OR_RETURN(std::vector<NamedView> views, AsTheyAreNow(arrays, source_->memory));
                  return source_->live->Replace({step, std::move(views)});
                }),
                About::kTensor);
  }

  TensorSnapshot Current() const {
    CheckOpen();
    return Take(WithoutGil([&] { return source_->tensors->Current(); }));
  }

  // The same tensors, which keep the file system that they are read by.
  std::shared_ptr<const ArchiveReader> WithItsFiles(const std::shared_ptr<const ArchiveReader>& tensors) const {
    const auto held =
        std::make_shared<const std::pair<std::shared_ptr<FileSystem>, std::shared_ptr<const ArchiveReader>>>(
            source_->files, tensors);
    return std::shared_ptr<const ArchiveReader>(held, tensors.get());
  }

  // Of the set that is newer than `version`.
  TensorVersion WaitForNewer(const TensorVersion& version, Deadline deadline) const {
    CheckOpen();
    const std::shared_ptr<Source> source = source_;
    return Take(WithoutGil([&]() -> absl::StatusOr<TensorVersion> {
      while (true) {
        const absl::Duration left = deadline.remaining();
        absl::StatusOr<TensorSnapshot> next = source->tensors->WaitForNewer(version, std::min(left, kAskEvery));
        if (next.ok()) return next->version;
        const bool is_late = absl::IsDeadlineExceeded(next.status()) || absl::IsUnavailable(next.status());
        if (!is_late || left <= kAskEvery) return next.status();
        if (!KeepGoing() || is_closed()) return absl::CancelledError("the server was closed");
      }
    }));
  }

  TensorServerStats stats() const {
    const std::shared_ptr<RemoteServer> open = server();
    if (open == nullptr) RaiseClosed("the server is closed");
    return open->stats();
  }

  // Afterwards the server is closed.
  void Drain(Deadline deadline) {
    const std::shared_ptr<RemoteServer> open = server();
    if (open == nullptr) return;
    WaitWithoutGil(
        [&] {
          open->Drain(deadline);
          return true;
        },
        [&] { open->Drain(absl::ZeroDuration()); });
    Close();
  }

  // Cuts the streams that have not ended.
  void Close() {
    const ReleasedGil release;
    std::shared_ptr<RemoteServer> open;
    {
      const std::lock_guard<ProcessMutex> lock(mutex_);
      open = std::move(server_);
      server_ = nullptr;
    }
    if (open == nullptr) return;
    if (!owner_.IsThisProcess()) {  // its threads are those of the parent
      new std::shared_ptr<RemoteServer>(std::move(open));
      new std::shared_ptr<Source>(source_);
      return;
    }
    open->Drain(absl::ZeroDuration());
  }

  // At the exit of the interpreter: no thread serves while it ends.
  static void CloseAll() {
    std::set<Server*> open;
    {
      const std::lock_guard<ProcessMutex> lock(All().mutex);
      open = All().open;
    }
    for (Server* const server : open) server->Close();
  }

 private:
  struct Registry {
    ProcessMutex mutex;
    std::set<Server*> open;
  };
  static Registry& All() {
    static auto* const all = new Registry;
    return *all;
  }

  // Null once closed, and in a child of fork(2).
  std::shared_ptr<RemoteServer> server() const {
    if (!owner_.IsThisProcess()) return nullptr;
    const std::lock_guard<ProcessMutex> lock(mutex_);
    return server_;
  }
  void CheckOpen() const {
    if (is_closed()) RaiseClosed("the server is closed");
  }

  const OwnerProcess owner_;
  const std::shared_ptr<Source> source_;  // outlives the server
  const std::string scheme_;
  int port_ = 0;
  std::string address_;
  mutable ProcessMutex mutex_;
  std::shared_ptr<RemoteServer> server_;  // null once closed
};

std::shared_ptr<Source> LiveSource() {
  auto source = std::make_shared<Source>();
  auto live = std::make_unique<LiveTensors>();
  source->live = live.get();
  source->tensors = std::move(live);
  return source;
}

// The names of each reader's tensors get its prefix.
std::shared_ptr<Source> ReadersSource(nb::handle readers) {
  std::vector<PrefixedArchive> archives;
  for (const nb::handle item : ItemsOf(readers, "source")) {
    const std::shared_ptr<const OpenFile> file = OpenFileOf(item[1]);
    archives.push_back(
        {FromText(item[0], "the prefix of a reader"), std::shared_ptr<const ArchiveReader>(file, file->archive.get())});
  }
  auto source = std::make_shared<Source>();
  source->tensors = Take(ServeArchives(std::move(archives)), About::kTensor);
  return source;
}

std::shared_ptr<Source> FolderSource(nb::handle folder, nb::handle name, double interval, bool verify, bool in_memory) {
  const std::string path = FromPath(folder);
  FollowFolderOptions options;
  options.name = FromText(name, "name");
  if (!(interval > 0)) Raise(absl::InvalidArgumentError("interval must be more than 0 seconds"));
  options.interval = absl::Seconds(interval);
  options.check = verify ? CheckStep::kEverything : CheckStep::kStructure;
  options.in_memory = in_memory;
  auto source = std::make_shared<Source>();
  source->files = Take(FilesFor(path));
  options.file_system = source->files.get();
  const OpenStep open = [files = source->files.get()](const std::string& prefix) {
    ArchiveReaderOptions reading;
    reading.read.file_system = files;
    return OpenArchive(prefix, Formats(), reading);
  };
  source->tensors = FollowFolder(path, open, options);
  return source;
}

TensorVersion FromVersion(nb::handle version) {
  if (version.is_none()) return {};
  return {nb::cast<int64_t>(version[0]), nb::cast<uint64_t>(version[1])};
}

nb::dict ToDict(const TensorServerStats& stats) {
  nb::dict result;
  result["num_streams"] = stats.num_streams;
  result["total_streams"] = stats.total_streams;
  result["refused_streams"] = stats.refused_streams;
  result["slow_streams"] = stats.slow_streams;
  result["sent_bytes"] = stats.sent_bytes;
  result["pushes"] = stats.pushes;
  return result;
}

}  // namespace

void DefineServer(nb::module_& m) {
  nb::class_<Source>(m, "Source", "What a ``tensorcask.Server`` serves.");
  m.def("live_source", &LiveSource);
  m.def("readers_source", &ReadersSource, nb::arg("readers"),
        nb::sig("def readers_source(readers: collections.abc.Mapping[str, Reader]) -> Source"));
  m.def("folder_source", &FolderSource, nb::arg("folder"), nb::arg("name"), nb::arg("interval"), nb::arg("verify"),
        nb::arg("in_memory"),
        nb::sig("def folder_source(folder: str | os.PathLike[str], name: str, interval: float, verify: bool, "
                "in_memory: bool) -> Source"));
  nb::class_<Server>(m, "Server", nb::is_weak_referenceable(),
                     "Serves tensors to other hosts over gRPC. ``tensorcask.serve`` starts it. Several threads may use "
                     "it at once.\n\n"
                     "    >>> import numpy as np, tensorcask as tc       # needs grpc\n"
                     "    >>> with tc.serve({'w': np.zeros(2)}) as server:\n"
                     "    ...     version = server.publish(100, {'w': np.ones(2)})\n"
                     "    ...     print(version.step, tc.load(server.url)['w'])\n"
                     "    100 [1. 1.]\n\n"
                     "The end of a ``with`` block closes the server. In a child of ``os.fork`` it is closed.")
      .def(
          "__init__",
          [](Server* self, std::shared_ptr<Source> source, nb::handle address, nb::handle credentials, bool insecure,
             uint64_t max_memory_bytes, int max_streams, double slow_client, bool accept_pushes) {
            TensorServerOptions options;
            options.address = FromText(address, "address");
            options.insecure = insecure;
            options.max_memory_bytes = max_memory_bytes;
            options.max_streams = max_streams;
            if (!(slow_client > 0)) Raise(absl::InvalidArgumentError("slow_client must be more than 0 seconds"));
            options.slow_client = absl::Seconds(slow_client);
            options.accept_pushes = accept_pushes;
            new (self) Server(std::move(source), options, FromCredentials(credentials));
          },
          nb::arg("source"), nb::arg("address"), nb::arg("credentials").none(), nb::arg("insecure"),
          nb::arg("max_memory_bytes"), nb::arg("max_streams"), nb::arg("slow_client"), nb::arg("accept_pushes"),
          nb::sig("def __init__(self, source: Source, address: str, credentials: tensorcask.Credentials | None, "
                  "insecure: bool, max_memory_bytes: int, max_streams: int, slow_client: float, accept_pushes: bool) "
                  "-> None"))
      .def_prop_ro("port", &Server::port)
      .def_prop_ro(
          "address", [](const Server& self) { return ToText(self.address()); }, nb::sig("def address(self) -> str"),
          "HOST:PORT, with the port that was chosen.")
      .def_prop_ro(
          "url", [](const Server& self) { return ToText(self.url()); }, nb::sig("def url(self) -> str"),
          "What clients open: grpc://HOST:PORT or grpcs://HOST:PORT.")
      .def_prop_ro(
          "version", [](const Server& self) { return ToVersion(self.Current().version); },
          nb::sig("def version(self) -> tensorcask.Version"),
          "Of the tensors that are served now. Raises UnavailableError while there are none.")
      .def(
          "publish",
          [](Server& self, int64_t step, nb::handle tensors) { return ToVersion(self.Publish(step, tensors)); },
          nb::arg("step"), nb::arg("tensors"),
          nb::sig("def publish(self, step: int, tensors: collections.abc.Mapping[str, object]) -> tensorcask.Version"),
          "Replaces all tensors of a server of a mapping, and returns their version. Arrays are copied, and may change "
          "when the call returns; a ``tensorcask.Tensor`` is copied when the program first writes to it. Streams of "
          "the version before go on to their end.")
      .def(
          "reader",
          [](const Server& self) {
            const TensorSnapshot snapshot = self.Current();
            return MakeReader(self.WithItsFiles(snapshot.tensors), snapshot.version);
          },
          nb::sig("def reader(self) -> Reader"),
          "The tensors that are served now: those that a client has pushed, for example.")
      .def(
          "wait_for_newer",
          [](const Server& self, nb::handle version, nb::handle timeout) {
            return ToVersion(self.WaitForNewer(FromVersion(version), FromTimeout(timeout)));
          },
          nb::arg("version").none(), nb::arg("timeout").none() = nb::none(),
          nb::sig("def wait_for_newer(self, version: tensorcask.Version | None, timeout: float | None = None) "
                  "-> tensorcask.Version"),
          "Waits until other tensors than those of ``version`` are served: those of a push, or a newer step of a "
          "folder. None is the version of no tensors. Raises TimeoutError, and CancelledError if another thread "
          "closes the server.")
      .def(
          "stats", [](const Server& self) { return ToDict(self.stats()); },
          nb::sig("def stats(self) -> dict[str, int]"),
          "``num_streams`` are open now. Since the start: ``total_streams`` were accepted, ``refused_streams`` were "
          "too many or came while the server drained, ``slow_streams`` were ended for ``slow_client``, ``sent_bytes`` "
          "of tensors were sent, and ``pushes`` arrived whole.")
      .def(
          "drain", [](Server& self, nb::handle timeout) { self.Drain(FromTimeout(timeout)); },
          nb::arg("timeout").none() = 30.0, nb::sig("def drain(self, timeout: float | None = 30.0) -> None"),
          "Refuses new requests, waits until all streams have ended or the timeout has passed, and closes the server.")
      .def("close", &Server::Close, "Ends all streams at once. A second call does nothing.")
      .def_prop_ro("closed", &Server::is_closed)
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Server"))
      .def(
          "__exit__", [](Server& self, nb::args) { self.Close(); },
          nb::sig("def __exit__(self, *exception: object) -> None"))
      .def(
          "__repr__",
          [](const Server& self) {
            return ToText(absl::StrCat("<tensorcask.Server ", self.url(), self.is_closed() ? ", closed>" : ">"));
          },
          nb::sig("def __repr__(self) -> str"));
  m.def("_close_servers", &Server::CloseAll);
  nb::module_::import_("atexit").attr("register")(m.attr("_close_servers"));
}

}  // namespace tensorcask::python
