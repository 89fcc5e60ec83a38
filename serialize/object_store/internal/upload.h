// A new object of an S3 store, from its first byte until it is published or removed.
//
//   Upload upload(&requests, &threads, url, /*part_bytes=*/0, /*connections=*/16);
//   upload.Append(bytes);
//   upload.Publish({PublishCondition::Kind::kNew, ""});
//
// The bytes are gathered into parts. The first part stays in memory until Close, so that a header can still be changed
// (WriteAt); a file that fits into it needs one request. The others are sent by other threads while more is appended;
// the memory of the parts that wait is bounded by kMaxWaitingBytes or two parts. All parts but the last have the same
// size, which some stores demand.
//
// Each upload has a random save id, which becomes metadata of the object. After an answer was lost, or a store refused
// the condition, a HEAD tells by it whether the object is this one: neither the status nor a repeated request tells.
//
// Bytes that are written past the end wait in memory until those before them are there, up to kMaxAheadBytes: writers
// whose format has an order of its own get along with an upload.
//
// One caller at a time. All results: 0 or a count, or minus an errno with detail().

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_UPLOAD_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_UPLOAD_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/object_store/internal/object_requests.h"
#include "tensorcask/serialize/object_store/internal/object_url.h"
#include "tensorcask/serialize/object_store/internal/task_threads.h"

namespace tensorcask::internal {

class Upload {
 public:
  static constexpr uint64_t kLeastPartBytes = uint64_t{8} << 20;
  static constexpr uint64_t kUsualPartBytes = uint64_t{16} << 20;
  static constexpr uint64_t kMostPartBytes = uint64_t{64} << 20;
  static constexpr uint64_t kWantedParts = 200;
  static constexpr size_t kMaxParts = 10'000;
  static constexpr uint64_t kMaxWaitingBytes = uint64_t{256} << 20;
  static constexpr uint64_t kMaxAheadBytes = uint64_t{4} << 30;

  // `part_bytes` 0: chosen by the announced size.
  Upload(const ObjectRequests* requests, TaskThreads* threads, ObjectUrl url, uint64_t part_bytes, int connections);
  ~Upload();  // waits for the parts that are being sent; removes nothing
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // The size that the file will have, before the first part is full.
  void Announce(uint64_t size_bytes);
  IoResult Append(absl::string_view bytes);
  // -EOPNOTSUPP for bytes that are neither in the first part or the last one, nor past the end.
  IoResult WriteAt(uint64_t offset, absl::string_view bytes);
  // The error of a part that was sent, if there is one by now.
  IoResult Check();
  // Nothing more will be written; gaps become zeros. Sends the parts that are left, if there are several, and does not
  // wait for them.
  IoResult Close();

  // Makes the object visible, whole. -EEXIST if it must be new, and an object has the name;
  // -ESTALE if it must replace an object with a certain ETag, and that has another one or is gone. After other errors
  // it may be that the object is there; Remove tells.
  IoResult Publish(const PublishCondition& condition);

  // Removes what was sent. -ENOENT if the object was published after all: it stays. Another error: that is unknown.
  IoResult Remove();

  uint64_t size_bytes() const;
  const std::string& detail() const { return detail_; }
  const ObjectUrl& url() const { return url_; }

 private:
  enum class Winner { kUs, kAnother, kNone, kUnknown };

  void ChoosePartBytes();
  IoResult AppendNow(absl::string_view bytes);
  IoResult AppendAhead();
  IoResult KeepAhead(uint64_t offset, absl::string_view bytes);
  IoResult AppendTo(std::string* part, absl::string_view* bytes);
  IoResult Start();
  IoResult SendPart(size_t index, std::string bytes);
  void SendNow(size_t index, const std::string& bytes);
  IoResult SendRest();
  IoResult Wait();
  HttpAnswer AskToPublish(const PublishCondition& condition);
  // *etag: of the object that is there.
  Winner FindWinner(IoResult* result, std::string* etag);
  IoResult Fail(IoResult result, std::string detail);
  IoResult FailForGood(IoResult result, std::string detail);

  const ObjectRequests* const requests_;
  TaskThreads* const threads_;
  const ObjectUrl url_;
  const int connections_;
  const std::string save_id_;

  uint64_t part_bytes_;  // 0: not chosen yet
  uint64_t announced_ = 0;
  uint64_t size_ = 0;                      // of what is in parts
  uint64_t appended_ = 0;                  // where Append goes on
  std::map<uint64_t, std::string> ahead_;  // by offset: bytes past the end, which neither touch nor overlap
  uint64_t ahead_bytes_ = 0;
  std::string first_;
  std::string last_;       // the part that is being gathered, behind the first
  size_t num_parts_ = 1;   // started, the first included
  std::string upload_id_;  // "": none was started
  bool is_closed_ = false;
  bool is_sent_ = false;       // SendRest has sent them
  bool is_uncertain_ = false;  // a request may have published it, or may do so yet
  std::string detail_;

  std::mutex mutex_;
  std::condition_variable sent_;
  size_t sending_ = 0;
  std::vector<UploadedPart> parts_;
  std::vector<std::string> spare_;  // memory of parts that were sent
  IoResult error_ = 0;              // of a part, the first
  std::string error_detail_;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_UPLOAD_H_
