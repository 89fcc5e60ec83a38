#include "tensorcask/serialize/io/byte_source.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/internal/announced_reads.h"
#include "tensorcask/serialize/io/internal/retry.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

using internal::AnnouncedReads;
using internal::RetryInterrupted;

constexpr size_t kJoinBytes = size_t{256} << 10;  // ranges from this size on go straight to their destination
constexpr uint64_t kMaxJoinedBytes = 1 << 20;     // memory for one joined read
constexpr size_t kParallelFromBytes = size_t{8} << 20;
constexpr size_t kPieceBytes = size_t{2} << 20;  // what one thread takes at a time

absl::Status CheckRange(const ByteSource& source, uint64_t offset, uint64_t size_bytes) {
  if (RangeFits(offset, size_bytes, source.size_bytes())) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(source.name(), ": ", size_bytes, " bytes at ", offset,
                                          " were requested; the file has ", source.size_bytes()));
}

absl::Status CheckRanges(const ByteSource& source, absl::Span<const ReadRange> ranges) {
  for (const ReadRange& range : ranges) CASK_RETURN_IF_ERROR(CheckRange(source, range.offset, range.out.size()));
  return absl::OkStatus();
}

// For sources where joining reads gains nothing.
absl::Status ReadEach(const ByteSource& source, absl::Span<const ReadRange> ranges) {
  CASK_RETURN_IF_ERROR(CheckRanges(source, ranges));
  for (const ReadRange& range : ranges) CASK_RETURN_IF_ERROR(source.ReadAt(range.offset, range.out));
  return absl::OkStatus();
}

absl::Status Shrank(const std::string& name, uint64_t opened_bytes, uint64_t now_bytes) {
  return absl::DataLossError(
      absl::StrCat(name, ": had ", opened_bytes, " bytes when it was opened, and now ends at ", now_bytes));
}

// The mapped bytes of one whole file. Buffers that refer to it may outlive the source.
class Mapping {
 public:
  Mapping(FileSystem* files, const char* data, size_t size_bytes)
      : files_(files), data_(data), size_bytes_(size_bytes) {}
  ~Mapping() { files_->Unmap(data_, size_bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const char* data() const { return data_; }

 private:
  FileSystem* const files_;
  const char* const data_;
  const size_t size_bytes_;
};

uint64_t EndOf(const ReadRange& range) { return range.offset + range.out.size(); }

// The error of OpenToRead, or of what waits for the end of OpenToReadSoon. Requires: result < 0.
absl::Status NotOpened(const std::string& path, IoResult result, FileSystem* files) {
  if (result == -EISDIR) return absl::FailedPreconditionError(absl::StrCat(path, ": cannot open: is a folder"));
  if (result == -EINVAL)
    return absl::FailedPreconditionError(absl::StrCat(path, ": cannot open: is not a regular file"));
  return NameMissingFolder(IoError(result, path, "open", files), path, files);
}

class FileSource final : public ByteSource {
 public:
  // The size of a file that is being opened is not known yet.
  FileSource(std::string path, FileSystem* files, IoResult handle, std::optional<uint64_t> size_bytes,
             const ReadOptions& options)
      : path_(std::move(path)),
        files_(files),
        handle_(handle),
        size_bytes_(size_bytes.has_value() ? static_cast<int64_t>(*size_bytes) : kNotOpen),
        shape_(files->ShapeOf(handle)),
        strategy_(options.strategy),
        num_threads_(options.num_threads) {}
  ~FileSource() override { files_->Close(handle_); }

  const std::string& name() const override { return path_; }
  uint64_t size_bytes() const override {
    if (size_bytes_ < 0) WaitUntilOpen().IgnoreError();
    return static_cast<uint64_t>(std::max<int64_t>(size_bytes_, 0));
  }
  // Without a lock, which another thread might hold for ever in a child of fork(2).
  absl::Status WaitUntilOpen() const override {
    if (size_bytes_ >= 0) return absl::OkStatus();
    const IoResult size = RetryInterrupted([&] { return files_->SizeOf(handle_); });
    if (size < 0) return NotOpened(path_, size, files_);
    size_bytes_ = size;
    return absl::OkStatus();
  }

  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    CASK_RETURN_IF_ERROR(CheckRange(*this, offset, out.size()));
    if (out.empty()) return absl::OkStatus();
    if (strategy_ == ReadStrategy::kMap) {
      const absl::StatusOr<std::shared_ptr<const Mapping>> mapping = Mapped(offset + out.size());
      if (mapping.ok()) {
        std::memcpy(out.data(), (*mapping)->data() + offset, out.size());
        return absl::OkStatus();
      }
      if (!absl::IsUnimplemented(mapping.status())) return mapping.status();
    }
    if (shape_.in_flight > 1) return ReadShaped({{offset, out}});
    if (strategy_ == ReadStrategy::kParallel && num_threads_ > 1 && out.size() >= kParallelFromBytes) {
      return ReadParallel(offset, out);
    }
    return ReadAll(offset, out);
  }

  absl::Status ReadRanges(absl::Span<const ReadRange> ranges) const override {
    if (shape_.in_flight > 1) {
      CASK_RETURN_IF_ERROR(CheckRanges(*this, ranges));
      return ReadShaped(ranges);
    }
    return strategy_ == ReadStrategy::kMap ? ReadEach(*this, ranges) : ByteSource::ReadRanges(ranges);
  }

  ReadShape read_shape() const override { return shape_; }

  std::shared_ptr<Announcement> Announce(absl::Span<const FileRange> ranges,
                                         const AnnounceOptions& options) const override {
    if (shape_.in_flight <= 1) return nullptr;
    const bool is_soon = std::any_of(ranges.begin(), ranges.end(), [](const FileRange& r) { return r.is_later; });
    std::vector<FileRange> in_file;
    for (const FileRange& range : ranges) {
      // Reading the others gives the error. Before the file is open, that is left to it.
      if (is_soon || RangeFits(range.offset, range.size_bytes, size_bytes())) in_file.push_back(range);
    }
    const std::shared_ptr<AnnouncedReads> announced(
        new AnnouncedReads(
            in_file, shape_, options, [this](absl::Span<const ReadRange> piece) { return ReadPiece(piece); },
            [this](absl::Span<ReadRange> piece, absl::FunctionRef<bool()> find_memory) {
              return files_->ReadPieceSoon(handle_, piece, find_memory) >= 0;
            }),
        AnnouncedReads::Delete());
    const std::lock_guard<std::mutex> lock(announced_mutex_);
    announced_.erase(std::remove_if(announced_.begin(), announced_.end(), [](const auto& a) { return a.expired(); }),
                     announced_.end());
    announced_.push_back(announced);
    // A thread that reads something else of the file meanwhile keeps it, but not the memory into which ranges are read.
    return std::shared_ptr<Announcement>(announced.get(), [announced](Announcement*) { announced->End(); });
  }

  bool GetFile(FileSystem** file_system, IoResult* handle) const override {
    *file_system = files_;
    *handle = handle_;
    return true;
  }

  // All buffers share one mapping of the whole file: the system allows some 65,000 mappings, and there may be more
  // tensors.
  absl::StatusOr<RefPtr<TensorBuffer>> Map(uint64_t offset, size_t size_bytes) const override {
    CASK_RETURN_IF_ERROR(CheckRange(*this, offset, size_bytes));
    TensorBuffer::External memory;
    memory.size_bytes = size_bytes;
    memory.writable = false;
    memory.kind = TensorBuffer::Kind::kMapped;
    if (size_bytes > 0) {
      CASK_ASSIGN_OR_RETURN(std::shared_ptr<const Mapping> mapping, Mapped(offset + size_bytes));
      memory.data = const_cast<char*>(mapping->data() + offset);
      memory.release = [mapping = std::move(mapping)]() mutable { mapping.reset(); };
    }
    return TensorBuffer::WrapExternal(std::move(memory));
  }

 private:
  absl::Status ReadAll(uint64_t offset, absl::Span<char> out) const {
    while (!out.empty()) {
      const IoResult got = RetryInterrupted([&] { return files_->ReadAt(handle_, offset, out); });
      if (got < 0) return IoError(got, path_, absl::StrCat("read at ", offset), files_);
      if (got == 0) return Shrank(path_, size_bytes(), offset);
      out.remove_prefix(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return absl::OkStatus();
  }

  std::vector<std::shared_ptr<AnnouncedReads>> Announced() const {
    std::vector<std::shared_ptr<AnnouncedReads>> all;
    const std::lock_guard<std::mutex> lock(announced_mutex_);
    for (const std::weak_ptr<AnnouncedReads>& one : announced_) {
      if (std::shared_ptr<AnnouncedReads> announced = one.lock()) all.push_back(std::move(announced));
    }
    return all;
  }

  // In pieces as the file system likes them. Requires: the ranges lie in the file.
  absl::Status ReadShaped(absl::Span<const ReadRange> ranges) const {
    const std::vector<std::shared_ptr<AnnouncedReads>> announced = Announced();
    std::vector<ReadRange> rest;
    for (ReadRange range : ranges) {
      for (size_t i = 0; i < announced.size() && !range.out.empty();) {
        const size_t read = announced[i]->Read(range.offset, range.out);
        range.offset += read;
        range.out.remove_prefix(read);
        i = read > 0 ? 0 : i + 1;
      }
      if (!range.out.empty()) rest.push_back(range);
    }
    std::sort(rest.begin(), rest.end(), [](const ReadRange& a, const ReadRange& b) { return a.offset < b.offset; });
    return ReadJoined(rest);
  }

  // Sorted ranges, at most in_flight pieces at a time. A piece of one range goes straight to where its bytes go.
  absl::Status ReadJoined(absl::Span<const ReadRange> ranges) const {
    const auto most = static_cast<size_t>(shape_.in_flight);
    std::vector<ReadRange> pieces;
    struct Part {
      size_t piece;
      ReadRange to;
    };
    std::vector<Part> parts;                       // of pieces that hold several ranges
    std::vector<std::unique_ptr<char[]>> buffers;  // of the same pieces
    const auto flush = [&]() -> absl::Status {
      CASK_RETURN_IF_ERROR(ReadMany(pieces));
      for (const Part& part : parts) {
        const ReadRange& piece = pieces[part.piece];
        std::memcpy(part.to.out.data(), piece.out.data() + (part.to.offset - piece.offset), part.to.out.size());
      }
      pieces.clear();
      parts.clear();
      buffers.clear();
      return absl::OkStatus();
    };
    for (size_t first = 0; first < ranges.size();) {
      const uint64_t start = ranges[first].offset;
      uint64_t end = EndOf(ranges[first]);
      size_t last = first + 1;  // one past
      for (; last < ranges.size() && end - start < shape_.piece_bytes; ++last) {
        const ReadRange& next = ranges[last];
        if (next.offset > end && next.offset - end > shape_.gap_bytes) break;
        if (EndOf(next) - start > shape_.piece_bytes) break;
        end = std::max(end, EndOf(next));
      }
      if (last == first + 1) {
        const ReadRange& range = ranges[first];
        for (uint64_t done = 0; done < range.out.size(); done += shape_.piece_bytes) {
          pieces.push_back({range.offset + done,
                            range.out.subspan(static_cast<size_t>(done), static_cast<size_t>(shape_.piece_bytes))});
        }
      } else {
        const auto size = static_cast<size_t>(end - start);
        buffers.emplace_back(new (std::nothrow) char[size]);
        if (buffers.back() == nullptr) {
          return absl::ResourceExhaustedError(absl::StrCat(path_, ": no memory for a read of ", size, " bytes"));
        }
        for (size_t i = first; i < last; ++i) parts.push_back({pieces.size(), ranges[i]});
        pieces.push_back({start, absl::MakeSpan(buffers.back().get(), size)});
      }
      first = last;
      if (buffers.size() >= most || pieces.size() >= most) CASK_RETURN_IF_ERROR(flush());
    }
    return flush();
  }

  absl::Status ReadMany(absl::Span<const ReadRange> ranges) const {
    if (ranges.empty()) return absl::OkStatus();
    if (ranges.size() == 1) return ReadAll(ranges[0].offset, ranges[0].out);
    return Judge(RetryInterrupted([&] { return files_->ReadManyAt(handle_, ranges); }), ranges);
  }

  absl::Status ReadPiece(absl::Span<const ReadRange> ranges) const {
    if (EndOf(ranges.back()) - ranges.front().offset <= shape_.piece_bytes) return ReadMany(ranges);
    return Judge(RetryInterrupted([&] { return files_->ReadPieceAt(handle_, ranges); }), ranges);
  }

  absl::Status Judge(IoResult read, absl::Span<const ReadRange> ranges) const {
    if (read >= 0) return absl::OkStatus();
    if (read != -ENODATA) return IoError(read, path_, absl::StrCat("read from ", ranges[0].offset, " on"), files_);
    const IoResult size_now = RetryInterrupted([&] { return files_->SizeOf(handle_); });
    return Shrank(path_, size_bytes(), static_cast<uint64_t>(std::max<IoResult>(size_now, 0)));
  }

  absl::Status ReadParallel(uint64_t offset, absl::Span<char> out) const {
    const size_t pieces = (out.size() - 1) / kPieceBytes + 1;
    std::vector<absl::Status> statuses(pieces);
    CASK_RETURN_IF_ERROR(ParallelFor(num_threads_, pieces, [&](size_t i) {
      statuses[i] = ReadAll(offset + i * kPieceBytes, out.subspan(i * kPieceBytes, kPieceBytes));
    }));
    for (const absl::Status& status : statuses) CASK_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  // The mapping, of which the first `end` bytes are about to be used. A file that was truncated is noticed here rather
  // than by SIGBUS, unless it happens in between.
  absl::StatusOr<std::shared_ptr<const Mapping>> Mapped(uint64_t end) const {
    const IoResult size_now = RetryInterrupted([&] { return files_->SizeOf(handle_); });
    if (size_now < 0) return IoError(size_now, path_, "ask for the size", files_);
    if (static_cast<uint64_t>(size_now) < end) return Shrank(path_, size_bytes(), static_cast<uint64_t>(size_now));
    std::lock_guard<std::mutex> lock(mutex_);
    if (mapping_ == nullptr) {
      // The range must lie in the file, so a part that was truncated meanwhile is not mapped.
      const uint64_t mapped_bytes = std::min(size_bytes(), static_cast<uint64_t>(size_now));
      const char* data = nullptr;
      const IoResult result =
          RetryInterrupted([&] { return files_->Map(handle_, 0, static_cast<size_t>(mapped_bytes), &data); });
      if (result == -ENODEV)
        return absl::UnimplementedError(absl::StrCat(path_, ": this file system cannot map files"));
      if (result < 0) return IoError(result, path_, "map", files_);
      mapping_ = std::make_shared<const Mapping>(files_, data, static_cast<size_t>(mapped_bytes));
      mapped_bytes_ = mapped_bytes;
    }
    if (end > mapped_bytes_) return Shrank(path_, size_bytes(), mapped_bytes_);
    return mapping_;
  }

  const std::string path_;
  FileSystem* const files_;
  const IoResult handle_;
  static constexpr int64_t kNotOpen = -1;
  mutable std::atomic<int64_t> size_bytes_;  // kNotOpen, and once the size
  const ReadShape shape_;
  const ReadStrategy strategy_;
  const int num_threads_;

  mutable std::mutex announced_mutex_;
  mutable std::vector<std::weak_ptr<AnnouncedReads>> announced_;

  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Mapping> mapping_;  // made when first needed
  mutable uint64_t mapped_bytes_ = 0;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, absl::string_view bytes, RefPtr<TensorBuffer> owner)
      : name_(std::move(name)), bytes_(bytes), owner_(std::move(owner)) {}

  const std::string& name() const override { return name_; }
  uint64_t size_bytes() const override { return bytes_.size(); }

  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    CASK_RETURN_IF_ERROR(CheckRange(*this, offset, out.size()));
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return absl::OkStatus();
  }

  absl::Status ReadRanges(absl::Span<const ReadRange> ranges) const override { return ReadEach(*this, ranges); }

  absl::StatusOr<RefPtr<TensorBuffer>> Map(uint64_t offset, size_t size_bytes) const override {
    if (owner_ == nullptr) return ByteSource::Map(offset, size_bytes);
    CASK_RETURN_IF_ERROR(CheckRange(*this, offset, size_bytes));
    return TensorBuffer::MakeSubBuffer(owner_, static_cast<size_t>(offset), size_bytes);
  }

 private:
  const std::string name_;
  const absl::string_view bytes_;
  const RefPtr<TensorBuffer> owner_;  // of the bytes; null: the caller keeps them
};

class WindowSource final : public ByteSource {
 public:
  WindowSource(std::shared_ptr<const ByteSource> source, uint64_t offset, uint64_t size_bytes)
      : source_(std::move(source)), offset_(offset), size_bytes_(size_bytes) {}

  const std::string& name() const override { return source_->name(); }
  uint64_t size_bytes() const override { return size_bytes_; }

  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    CASK_RETURN_IF_ERROR(CheckRange(*this, offset, out.size()));
    return source_->ReadAt(offset_ + offset, out);
  }

  absl::Status ReadRanges(absl::Span<const ReadRange> ranges) const override {
    CASK_RETURN_IF_ERROR(CheckRanges(*this, ranges));
    std::vector<ReadRange> moved(ranges.begin(), ranges.end());
    for (ReadRange& range : moved) range.offset += offset_;
    return source_->ReadRanges(moved);
  }

  ReadShape read_shape() const override { return source_->read_shape(); }

  std::shared_ptr<Announcement> Announce(absl::Span<const FileRange> ranges,
                                         const AnnounceOptions& options) const override {
    std::vector<FileRange> moved;
    for (const FileRange& range : ranges) {
      if (RangeFits(range.offset, range.size_bytes, size_bytes_)) {
        moved.push_back({offset_ + range.offset, range.size_bytes, range.into});
      }
    }
    return source_->Announce(moved, options);
  }

  absl::StatusOr<RefPtr<TensorBuffer>> Map(uint64_t offset, size_t size_bytes) const override {
    CASK_RETURN_IF_ERROR(CheckRange(*this, offset, size_bytes));
    return source_->Map(offset_ + offset, size_bytes);
  }

 private:
  const std::shared_ptr<const ByteSource> source_;
  const uint64_t offset_;
  const uint64_t size_bytes_;
};

}  // namespace

absl::Status ByteSource::ReadRanges(absl::Span<const ReadRange> ranges) const {
  CASK_RETURN_IF_ERROR(CheckRanges(*this, ranges));
  std::vector<const ReadRange*> order;  // those that are read together, by offset
  order.reserve(ranges.size());
  for (const ReadRange& range : ranges) {
    if (range.out.size() >= kJoinBytes) {
      CASK_RETURN_IF_ERROR(ReadAt(range.offset, range.out));
    } else if (!range.out.empty()) {
      order.push_back(&range);
    }
  }
  std::sort(order.begin(), order.end(), [](const ReadRange* a, const ReadRange* b) { return a->offset < b->offset; });

  const uint64_t max_gap_bytes = read_shape().gap_bytes;
  std::vector<char> joined;
  for (size_t first = 0; first < order.size();) {
    const uint64_t start = order[first]->offset;
    uint64_t end = EndOf(*order[first]);
    size_t last = first + 1;  // one past
    for (; last < order.size(); ++last) {
      const ReadRange& next = *order[last];
      if (next.offset > end && next.offset - end > max_gap_bytes) break;
      if (EndOf(next) > end && EndOf(next) - start > kMaxJoinedBytes) break;
      end = std::max(end, EndOf(next));
    }
    if (last == first + 1) {
      CASK_RETURN_IF_ERROR(ReadAt(start, order[first]->out));
    } else {
      joined.resize(static_cast<size_t>(end - start));
      CASK_RETURN_IF_ERROR(ReadAt(start, absl::MakeSpan(joined)));
      for (size_t i = first; i < last; ++i) {
        const absl::Span<char> out = order[i]->out;
        std::memcpy(out.data(), joined.data() + (order[i]->offset - start), out.size());
      }
    }
    first = last;
  }
  return absl::OkStatus();
}

std::shared_ptr<Announcement> ByteSource::Announce(absl::Span<const FileRange>, const AnnounceOptions&) const {
  return nullptr;
}

bool ByteSource::GetFile(FileSystem**, IoResult*) const { return false; }

absl::StatusOr<RefPtr<TensorBuffer>> ByteSource::Map(uint64_t offset, size_t size_bytes) const {
  CASK_RETURN_IF_ERROR(CheckRange(*this, offset, size_bytes));
  return absl::UnimplementedError(absl::StrCat(name(), ": cannot be mapped"));
}

absl::StatusOr<std::shared_ptr<const ByteSource>> OpenFileSource(const std::string& path, const ReadOptions& options) {
  CASK_RETURN_IF_ERROR(CheckPath(path));
  if (options.source != nullptr && path == options.source->name()) return options.source;
  CASK_RETURN_IF_ERROR(CheckHasNeighbours(path, options));
  return SourceOfHandle(path, RetryInterrupted([&] { return options.file_system->OpenToRead(path); }), options);
}

absl::StatusOr<std::shared_ptr<const ByteSource>> OpenFileSourceSoon(const std::string& path,
                                                                     const ReadOptions& options) {
  if (options.source != nullptr || !CheckPath(path).ok()) return OpenFileSource(path, options);
  FileSystem* const files = options.file_system;
  const IoResult handle = RetryInterrupted([&] { return files->OpenToReadSoon(path); });
  if (handle < 0) return NotOpened(path, handle, files);
  return std::make_shared<const FileSource>(path, files, handle, std::nullopt, options);
}

absl::StatusOr<std::shared_ptr<const ByteSource>> SourceOfHandle(const std::string& path, IoResult handle,
                                                                 const ReadOptions& options) {
  FileSystem* const files = options.file_system;
  if (handle < 0) return NotOpened(path, handle, files);
  const IoResult size = RetryInterrupted([&] { return files->SizeOf(handle); });
  if (size < 0) {
    files->Close(handle);
    return IoError(size, path, "ask for the size", files);
  }
  return std::make_shared<const FileSource>(path, files, handle, static_cast<uint64_t>(size), options);
}

absl::StatusOr<std::shared_ptr<const ByteSource>> MakeWindow(std::shared_ptr<const ByteSource> source, uint64_t offset,
                                                             uint64_t size_bytes) {
  CASK_RETURN_IF_ERROR(CheckRange(*source, offset, size_bytes));
  return std::make_shared<const WindowSource>(std::move(source), offset, size_bytes);
}

std::shared_ptr<const ByteSource> MakeMemorySource(std::string name, absl::string_view bytes) {
  return std::make_shared<const MemorySource>(std::move(name), bytes, nullptr);
}

std::shared_ptr<const ByteSource> MakeMemorySource(std::string name, RefPtr<TensorBuffer> bytes) {
  const absl::string_view view = bytes->bytes();
  return std::make_shared<const MemorySource>(std::move(name), view, std::move(bytes));
}

absl::Status CheckHasNeighbours(const std::string& path, const ReadOptions& options) {
  if (options.source == nullptr) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(path, ": cannot be read, because only the bytes of ", options.source->name(),
                                          " are given; open that by its path"));
}

bool WasReplaced(const ByteSource& file) {
  FileSystem* files = nullptr;
  IoResult handle = -1;
  if (!file.GetFile(&files, &handle)) return false;
  FileInfo opened;
  const IoResult described = internal::RetryInterrupted([&] { return files->DescribeOpen(handle, &opened); });
  if (described < 0 || !opened.id.is_known()) return false;
  const absl::StatusOr<FileInfo> now = DescribeFile(file.name(), files);
  return absl::IsNotFound(now.status()) || (now.ok() && !opened.id.Is(now->id));
}

absl::StatusOr<RefPtr<TensorBuffer>> ReadWholeFile(const std::string& path, uint64_t max_bytes,
                                                   const ReadOptions& options) {
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> file, OpenFileSource(path, options));
  if (file->size_bytes() > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": has ", file->size_bytes(), " bytes, the limit is ", max_bytes));
  }
  CASK_ASSIGN_OR_ANNOTATE(RefPtr<TensorBuffer> bytes, TensorBuffer::Allocate(static_cast<size_t>(file->size_bytes())),
                          path);
  char* const data = static_cast<char*>(bytes->mutable_data());
  CASK_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(data, bytes->size_bytes())));
  return bytes;
}

}  // namespace tensorcask
