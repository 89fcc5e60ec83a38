#include "tensorcask/python/src/store_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/process_mutex.h"
#include "tensorcask/serialize/io/file_system_router.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tensor/base/owner_process.h"

namespace tensorcask::python {
namespace {

constexpr absl::string_view kSchemes[] = {"s3", "https", "http"};

// Asks for Ctrl-C between requests.
class InterruptibleStore final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  IoResult OpenToRead(const std::string& path) override {
    return KeepGoing() ? ForwardingFileSystem::OpenToRead(path) : -ECANCELED;
  }
  IoResult OpenToReadSoon(const std::string& path) override {
    return KeepGoing() ? behind()->OpenToReadSoon(path) : -ECANCELED;
  }
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    return KeepGoing() ? ForwardingFileSystem::ReadAt(handle, offset, out) : -ECANCELED;
  }
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    return KeepGoing() ? ForwardingFileSystem::ReadManyAt(handle, ranges) : -ECANCELED;
  }
  IoResult ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    return KeepGoing() ? ForwardingFileSystem::ReadPieceAt(handle, ranges) : -ECANCELED;
  }
  IoResult ReadPieceSoon(IoResult handle, absl::Span<ReadRange> ranges,
                         absl::FunctionRef<bool()> find_memory) override {
    return KeepGoing() ? behind()->ReadPieceSoon(handle, ranges, find_memory) : -ECANCELED;
  }
  IoResult Append(IoResult handle, absl::string_view bytes) override {
    return KeepGoing() ? ForwardingFileSystem::Append(handle, bytes) : -ECANCELED;
  }
};

struct Opened {
  std::unique_ptr<ObjectStore> store;
  std::unique_ptr<InterruptibleStore> files;
  std::unique_ptr<FileSystemRouter> router;
};

// What the stores of one process are. A child of fork(2) has its own: threads and connections stay with the parent.
struct Stores {
  const OwnerProcess owner;
  std::mutex mutex;
  std::map<std::string, Opened> by_settings;
};

Stores& StoresOfThisProcess() {
  static ProcessMutex mutex;
  static Stores* stores = new Stores;
  const std::lock_guard<ProcessMutex> lock(mutex);
  if (!stores->owner.IsThisProcess()) stores = new Stores;
  return *stores;
}

// Programs change os.environ and expect that the next call sees it.
std::string SettingsOfEnvironment() {
  std::string settings;
  for (const char* const name : {"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",
                                 "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_NO_SIGN_REQUEST",
                                 "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}) {
    const char* const value = std::getenv(name);
    absl::StrAppend(&settings, value != nullptr ? value : "", "\n");
  }
  return settings;
}

}  // namespace

absl::StatusOr<FileSystem*> FilesFor(absl::string_view path) {
  const absl::string_view scheme = SchemeOf(path);
  if (std::find(std::begin(kSchemes), std::end(kSchemes), scheme) == std::end(kSchemes)) return InterruptibleFiles();
  Stores& stores = StoresOfThisProcess();
  const std::lock_guard<std::mutex> lock(stores.mutex);
  Opened& opened = stores.by_settings[SettingsOfEnvironment()];
  if (opened.router == nullptr) {
    absl::StatusOr<std::unique_ptr<ObjectStore>> store = ObjectStore::Create({});
    if (!store.ok()) return store.status();
    opened.store = *std::move(store);
    opened.files = std::make_unique<InterruptibleStore>(opened.store->files());
    opened.router = std::make_unique<FileSystemRouter>(InterruptibleFiles());
    for (const absl::string_view each : kSchemes) opened.router->Add(each, opened.files.get());
  }
  return opened.router.get();
}

}  // namespace tensorcask::python
