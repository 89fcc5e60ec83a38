#include "tensorcask/tools/read_progress.h"

#include <algorithm>
#include <utility>

#include "tensorcask/tools/tool_files.h"

namespace tensorcask::tools {

ReadProgress::ReadProgress(Console& console, std::string text)
    : ForwardingFileSystem(ToolFiles()), console_(console), text_(std::move(text)), line_(console) {
  line_.Show(text_);
}

void ReadProgress::SetTotal(uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bytes_ = 0;
  total_ = bytes;
  line_.SetTotal(bytes);
}

void ReadProgress::Print(absl::FunctionRef<void()> print) {
  const std::lock_guard<std::mutex> lock(mutex_);
  line_.Erase();
  print();
  if (console_.progress) console_.out.flush();
}

IoResult ReadProgress::ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) {
  const IoResult result = ForwardingFileSystem::ReadAt(handle, offset, out);
  if (result > 0) Add(static_cast<uint64_t>(result));
  return result;
}

IoResult ReadProgress::ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) {
  return AddAll(ranges, ForwardingFileSystem::ReadManyAt(handle, ranges));
}

IoResult ReadProgress::ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) {
  return AddAll(ranges, ForwardingFileSystem::ReadPieceAt(handle, ranges));
}

IoResult ReadProgress::ReadPieceSoon(IoResult handle, absl::Span<ReadRange> ranges,
                                     absl::FunctionRef<bool()> find_memory) {
  return AddAll(ranges, behind()->ReadPieceSoon(handle, ranges, find_memory));
}

IoResult ReadProgress::AddAll(absl::Span<const ReadRange> ranges, IoResult result) {
  if (result < 0) return result;
  uint64_t bytes = 0;
  for (const ReadRange& range : ranges) bytes += range.out.size();
  Add(bytes);
  return result;
}

void ReadProgress::Add(uint64_t bytes) {
  if (!console_.progress) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  bytes_ += bytes;
  if (total_ > 0) bytes_ = std::min(bytes_, total_);  // an index may be read twice
  line_.ShowBytes(text_, bytes_);
}

}  // namespace tensorcask::tools
