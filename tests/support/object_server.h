// The objects of a simple web server and S3 store, in memory, and what such a server answers: objects with ETags,
// ranges and conditions, uploads in parts with checksums, lists with pages.
//
//   ObjectServer objects;
//   objects.Put("bucket/model.npy", bytes);
//   objects.Work(&exchange);   // answers the request

#ifndef TENSORCASK_TESTS_SUPPORT_OBJECT_SERVER_H_
#define TENSORCASK_TESTS_SUPPORT_OBJECT_SERVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tensorcask/tests/support/http_exchange.h"

namespace tensorcask::testing {

// Thread-safe.
class ObjectServer {
 public:
  // Objects, by "bucket/key".
  void Put(const std::string& path, std::string bytes);
  // The same of an object whose bytes are made when they are asked for: make(offset, count) returns them. It has any
  // size and takes no memory, and Get does not return it. `make` is called from several threads.
  using MakeBytes = std::function<std::string(uint64_t offset, uint64_t count)>;
  void PutMade(const std::string& path, uint64_t size_bytes, MakeBytes make);
  bool Has(const std::string& path) const;
  std::string Get(const std::string& path) const;  // "" if there is none
  std::vector<std::string> Paths() const;
  size_t num_uploads() const;

  // Fills the answer.
  void Work(Exchange* exchange);

  // How a store encodes the keys of a list that was asked for with encoding-type=url.
  enum class ListKeys {
    kPlus,     // a space is "+": Amazon, MinIO
    kPercent,  // a space is "%20"
    kRaw,      // not at all, and the list does not say that it is encoded
  };
  std::atomic<ListKeys> list_keys{ListKeys::kPlus};

  // How this store differs from Amazon's.
  std::atomic<bool> ignores_ranges{false};      // as a simple web server does
  std::atomic<bool> repeats_complete{true};     // false: a second complete gets 404, as MinIO answers
  std::atomic<bool> lies_about_abort{false};    // 204 for an upload that is completed, as MinIO answers
  std::atomic<bool> demands_equal_parts{true};  // but for the last, and of 5 MiB, as the strictest store
  std::atomic<size_t> page_keys{1000};          // keys on a page of a list

 private:
  struct Object {
    std::shared_ptr<const std::string> bytes;
    std::string etag;
    std::string save_id;
    uint64_t made_bytes = 0;  // the size, if `make` makes the bytes
    MakeBytes make;

    uint64_t size_bytes() const { return make ? made_bytes : bytes->size(); }
    std::string Part(uint64_t offset, uint64_t count) const {
      return make ? make(offset, count) : bytes->substr(offset, count);
    }
  };
  struct Upload {
    std::string path;
    std::string save_id;
    std::map<int, std::pair<std::string, std::shared_ptr<const std::string>>> parts;  // ETag and bytes
    bool is_complete = false;
  };

  std::string ListedKey(const std::string& key) const;
  std::string EncodingElement() const;
  void Read(Exchange* exchange);
  void List(Exchange* exchange);
  void ListUploads(Exchange* exchange);
  bool MayPublish(const ServerRequest& request) const;  // by its conditions
  void Complete(Exchange* exchange);
  void Store(const std::string& path, std::string bytes, const std::string& save_id);

  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_;
  std::map<std::string, Upload> uploads_;
  int made_ = 0;  // objects, parts and uploads
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_OBJECT_SERVER_H_
