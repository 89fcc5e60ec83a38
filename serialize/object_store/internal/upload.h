// A new object of an S3 store, from its first byte until it is published or removed.
//
//   Upload upload(&requests, &threads, url, PartPlan(), /*connections=*/16);
//   upload.Append(bytes);
//   upload.Publish({PublishCondition::Kind::kNew, ""});
//
// The bytes are gathered into parts. The first part stays in memory until Close, so that a header can still be changed
// (WriteAt); a file that fits into it needs one request. The others are sent by other threads while more is appended;
// the memory of the parts that wait is bounded by kMaxWaitingBytes or two parts. All parts but the last have the same
// size, which some stores demand, unless the file outgrows PartPlan::equal_parts.
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

// The sizes of the parts. Few writers know how long a file will be, and most announce only what they are about to
// write. So what was announced is a lower bound, for which equal_parts are enough. A file that outgrows those has
// longer parts from there on, so that one of 7 TiB has room in 10,000 parts.
struct PartPlan {
  uint64_t fixed_bytes = 0;                        // of each part, as the caller asks; 0: as follows
  uint64_t gathered_bytes = uint64_t{8} << 20;     // before the size is chosen
  uint64_t least_bytes = uint64_t{16} << 20;       // of a part
  uint64_t usual_most_bytes = uint64_t{64} << 20;  // if equal_parts of them are enough
  size_t equal_parts = 5'000;                      // have the size that was chosen
  size_t parts_until_twice = 500;                  // after those

  uint64_t PartBytes(uint64_t announced_bytes) const;
  // Of the part `index`, from 0; `part_bytes`: of the one before.
  uint64_t NextPartBytes(uint64_t part_bytes, size_t index) const;
};

class Upload {
 public:
  static constexpr size_t kMaxParts = 10'000;
  static constexpr uint64_t kMaxWaitingBytes = uint64_t{256} << 20;
  static constexpr uint64_t kMaxAheadBytes = uint64_t{4} << 30;

  Upload(const ObjectRequests* requests, TaskThreads* threads, ObjectUrl url, const PartPlan& plan, int connections);
  ~Upload();  // waits for the parts that are being sent; removes nothing
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // The size that the file will have at least.
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

  void GrowParts();
  IoResult AppendNow(absl::string_view bytes);
  IoResult AppendAhead();
  IoResult KeepAhead(uint64_t offset, absl::string_view bytes);
  IoResult AppendTo(std::string* part, absl::string_view* bytes);
  IoResult Start();
  IoResult SendPart(size_t index, uint64_t offset, std::string bytes);
  IoResult QueuePart(size_t index, uint64_t offset, std::string bytes, bool* is_counted);
  IoResult SendLast(std::string next);
  IoResult SendNow(size_t index, uint64_t offset, const std::string& bytes, std::string* words);
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

  const PartPlan plan_;
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
