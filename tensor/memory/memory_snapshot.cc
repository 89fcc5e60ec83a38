#include "tensorcask/tensor/memory/memory_snapshot.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/check.h"

namespace tensorcask {
namespace {

absl::string_view NameOf(MemoryBlock::State state) {
  switch (state) {
    case MemoryBlock::State::kAllocated:
      return "active_allocated";
    case MemoryBlock::State::kAwaitingFree:
      return "active_awaiting_free";
    case MemoryBlock::State::kInactive:
      return "inactive";
  }
  return "";
}

char MarkOf(MemoryBlock::State state) {
  if (state == MemoryBlock::State::kAllocated) return '#';
  return state == MemoryBlock::State::kAwaitingFree ? '~' : '.';
}

// Which of two marks a cell shows that has both.
char Stronger(char a, char b) {
  if (a == '#' || b == '#') return '#';
  return a == '~' || b == '~' ? '~' : '.';
}

}  // namespace

std::string MemorySnapshot::ToJson() const {
  std::string json = "{\"segments\": [";
  absl::string_view separator;
  for (const MemorySegment& segment : segments) {
    absl::StrAppend(&json, separator, "\n  {\"device\": \"", device, "\", \"address\": ", segment.address,
                    ", \"total_size\": ", segment.bytes, ", \"allocated_size\": ", segment.allocated_bytes,
                    ", \"active_size\": ", segment.active_bytes, ", \"stream\": ", segment.stream,
                    ", \"segment_type\": \"", segment.is_large ? "large" : "small", "\", \"blocks\": [");
    absl::string_view block_separator;
    for (const MemoryBlock& block : segment.blocks) {
      absl::StrAppend(&json, block_separator, "\n    {\"address\": ", block.address, ", \"size\": ", block.bytes,
                      ", \"requested_size\": ", block.requested_bytes, ", \"state\": \"", NameOf(block.state), "\"}");
      block_separator = ",";
    }
    absl::StrAppend(&json, "]}");
    separator = ",";
  }
  absl::StrAppend(&json, "]}\n");
  return json;
}

std::string MemorySnapshot::Draw(int width) const {
  CASK_CHECK(width > 0, "a drawing has at least one column");
  std::string text;
  for (const MemorySegment& segment : segments) {
    std::string cells(static_cast<size_t>(width), '.');
    const double bytes_per_cell = static_cast<double>(segment.bytes) / width;
    size_t start = 0;
    for (const MemoryBlock& block : segment.blocks) {
      const auto first = static_cast<size_t>(static_cast<double>(start) / bytes_per_cell);
      start += block.bytes;
      const auto last = static_cast<size_t>(static_cast<double>(start - 1) / bytes_per_cell);
      for (size_t cell = first; cell <= std::min(last, cells.size() - 1); ++cell) {
        cells[cell] = Stronger(cells[cell], MarkOf(block.state));
      }
    }
    absl::StrAppendFormat(&text, "0x%x  %d bytes  %s  stream %d  %s\n", segment.address, segment.bytes,
                          segment.is_large ? "large" : "small", segment.stream, cells);
  }
  return text;
}

}  // namespace tensorcask
