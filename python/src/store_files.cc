#include "tensorcask/python/src/store_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
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
// What the variables begin with that a store reads.
constexpr absl::string_view kVariables[] = {"AWS_", "CURL_CA_BUNDLE=", "HOME=", "SSL_CERT_FILE="};
constexpr size_t kKeptStores = 4;

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
  std::string settings;  // SettingsOfEnvironment
  std::unique_ptr<ObjectStore> store;
  std::unique_ptr<InterruptibleStore> files;
  std::unique_ptr<FileSystemRouter> router;
};

// What the stores of one process are. A child of fork(2) has its own: threads and connections stay with the parent.
struct Stores {
  const OwnerProcess owner;
  std::mutex mutex;
  std::list<std::shared_ptr<const Opened>> recent;  // the last used comes first
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
  std::set<absl::string_view> settings;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const absl::string_view variable = *each;
    const auto begins_it = [&](absl::string_view name) { return absl::StartsWith(variable, name); };
    if (std::any_of(std::begin(kVariables), std::end(kVariables), begins_it)) settings.insert(variable);
  }
  return absl::StrJoin(settings, absl::string_view("\0", 1));
}

absl::StatusOr<std::shared_ptr<const Opened>> OpenStore(std::string settings) {
  absl::StatusOr<std::unique_ptr<ObjectStore>> store = ObjectStore::Create({});
  if (!store.ok()) return store.status();
  auto opened = std::make_shared<Opened>();
  opened->settings = std::move(settings);
  opened->store = *std::move(store);
  opened->files = std::make_unique<InterruptibleStore>(opened->store->files());
  opened->router = std::make_unique<FileSystemRouter>(InterruptibleFiles());
  for (const absl::string_view each : kSchemes) opened->router->Add(each, opened->files.get());
  return std::shared_ptr<const Opened>(std::move(opened));
}

}  // namespace

absl::StatusOr<std::shared_ptr<FileSystem>> FilesFor(absl::string_view path) {
  const absl::string_view scheme = SchemeOf(path);
  if (std::find(std::begin(kSchemes), std::end(kSchemes), scheme) == std::end(kSchemes)) {
    return std::shared_ptr<FileSystem>(std::shared_ptr<FileSystem>(), InterruptibleFiles());  // never destroyed
  }
  Stores& stores = StoresOfThisProcess();
  std::shared_ptr<const Opened> oldest;  // destroyed without the mutex
  const std::lock_guard<std::mutex> lock(stores.mutex);
  std::string settings = SettingsOfEnvironment();
  const auto found = std::find_if(stores.recent.begin(), stores.recent.end(),
                                  [&](const auto& opened) { return opened->settings == settings; });
  if (found != stores.recent.end()) {
    stores.recent.splice(stores.recent.begin(), stores.recent, found);
  } else {
    absl::StatusOr<std::shared_ptr<const Opened>> opened = OpenStore(std::move(settings));
    if (!opened.ok()) return opened.status();
    stores.recent.push_front(*std::move(opened));
    if (stores.recent.size() > kKeptStores) {
      oldest = std::move(stores.recent.back());
      stores.recent.pop_back();
    }
  }
  const std::shared_ptr<const Opened>& opened = stores.recent.front();
  return std::shared_ptr<FileSystem>(opened, opened->router.get());
}

}  // namespace tensorcask::python
