// Numbers of the zip format (PKWARE's APPNOTE.TXT 6.3.10), as far as this room reads and writes it.
//
//   member...   local header (30 bytes, name, extra fields), data, perhaps a data descriptor
//   directory   for each member an entry (46 bytes, name, extra fields, comment)
//   end         perhaps a zip64 end record (56) and its locator (20); the end record (22, comment)

#ifndef TENSORCASK_SERIALIZE_ZIP_ZIP_FORMAT_H_
#define TENSORCASK_SERIALIZE_ZIP_ZIP_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::zip {

inline constexpr uint32_t kLocalSignature = 0x04034b50;
inline constexpr uint32_t kDescriptorSignature = 0x08074b50;
inline constexpr uint32_t kEntrySignature = 0x02014b50;
inline constexpr uint32_t kEnd64Signature = 0x06064b50;
inline constexpr uint32_t kLocatorSignature = 0x07064b50;
inline constexpr uint32_t kEndSignature = 0x06054b50;

inline constexpr size_t kLocalBytes = 30;
inline constexpr size_t kEntryBytes = 46;
inline constexpr size_t kEnd64Bytes = 56;
inline constexpr size_t kLocatorBytes = 20;
inline constexpr size_t kEndBytes = 22;
inline constexpr size_t kMaxCommentBytes = 0xffff;

inline constexpr uint16_t kStored = 0;
inline constexpr uint16_t kDeflated = 8;

inline constexpr size_t kFirstInputBytes = size_t{4} << 10;  // how much deflated data is enough to read a header

// General purpose flags.
inline constexpr uint16_t kFlagEncrypted = 1 << 0;
inline constexpr uint16_t kFlagLevel = 3 << 1;  // how hard the compressor tried: two bits without effect
inline constexpr uint16_t kFlagDescriptor = 1 << 3;
inline constexpr uint16_t kFlagStrongEncryption = 1 << 6;
inline constexpr uint16_t kFlagUtf8 = 1 << 11;

inline constexpr uint16_t kMask16 = 0xffff;  // "see the zip64 record"
inline constexpr uint32_t kMask32 = 0xffffffff;

inline constexpr uint16_t kExtraZip64 = 0x0001;
inline constexpr uint16_t kExtraPadding = 0xd935;  // Android's zipalign: an alignment (2 bytes) and zeros

inline constexpr uint16_t kVersionPlain = 20;
inline constexpr uint16_t kVersionZip64 = 45;
inline constexpr uint16_t kMadeByUnix = 3 << 8;

// Deflate's longest match, 258 bytes, in its shortest code, two bits.
inline constexpr uint64_t kMaxDeflateRatio = 1032;

// The numbers of a record: little-endian.
inline uint16_t U16(const char* bytes) { return LoadLittleEndian<uint16_t>(bytes); }
inline uint32_t U32(const char* bytes) { return LoadLittleEndian<uint32_t>(bytes); }
inline uint64_t U64(const char* bytes) { return LoadLittleEndian<uint64_t>(bytes); }

}  // namespace tensorcask::zip

#endif  // TENSORCASK_SERIALIZE_ZIP_ZIP_FORMAT_H_
