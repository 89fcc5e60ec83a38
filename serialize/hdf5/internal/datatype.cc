#include "tensorcask/serialize/hdf5/internal/datatype.h"

#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::hdf5 {
namespace {

constexpr int kMaxDepth = 8;  // for types in types

enum Class {
  kInteger = 0,
  kFloat = 1,
  kTime = 2,
  kString = 3,
  kBits = 4,
  kOpaque = 5,
  kCompound = 6,
  kReference = 7,
  kEnum = 8,
  kVariable = 9,
  kArray = 10,
  kComplex = 11,
};

// Where the parts of a floating-point number are, in bits.
struct FloatForm {
  uint64_t size;  // bytes
  uint64_t sign, exponent, exponent_bits, mantissa, mantissa_bits, bias;
  DType dtype;
};

constexpr FloatForm kFloats[] = {
    {2, 15, 10, 5, 0, 10, 15, DType::kFloat16},
    {4, 31, 23, 8, 0, 23, 127, DType::kFloat32},
    {8, 63, 52, 11, 0, 52, 1023, DType::kFloat64},
    {2, 15, 7, 8, 0, 7, 127, DType::kBFloat16},
};

constexpr DType kIntegers[][2] = {
    // unsigned, signed; by the logarithm of the size
    {DType::kUint8, DType::kInt8},
    {DType::kUint16, DType::kInt16},
    {DType::kUint32, DType::kInt32},
    {DType::kUint64, DType::kInt64},
};

class Parser {
 public:
  explicit Parser(Cursor* in) : in_(*in) {}

  absl::StatusOr<Datatype> Parse(int depth) {
    if (depth > kMaxDepth) {
      return absl::UnimplementedError(absl::StrCat("a datatype has more than ", kMaxDepth, " types in each other"));
    }
    const uint64_t class_and_version = in_.Uint(1);
    const uint64_t bits = in_.Uint(3);
    Datatype type;
    type.size = in_.Uint(4);
    if (!in_.ok()) return CutShort("a datatype");
    const uint64_t version = class_and_version >> 4;
    if (version < 1 || version > 5) {
      return absl::UnimplementedError(absl::StrCat("a datatype has version ", version, "; 1 to 5 are read"));
    }
    if (type.size == 0) return absl::DataLossError("a datatype has elements of 0 bytes");
    const absl::Status status = ParseClass(static_cast<int>(class_and_version & 15), version, bits, depth, &type);
    if (!status.ok()) return status;
    if (!in_.ok()) return CutShort("a datatype");
    return type;
  }

 private:
  absl::Status ParseClass(int type_class, uint64_t version, uint64_t bits, int depth, Datatype* type) {
    switch (type_class) {
      case kInteger:
        ParseInteger(bits, type);
        return absl::OkStatus();
      case kFloat:
        ParseFloat(bits, type);
        return absl::OkStatus();
      case kTime:
        in_.Skip(2);
        return Other("a time", type);
      case kString:
        type->kind = Datatype::Kind::kText;
        if ((bits & 15) > 2) return absl::DataLossError(absl::StrCat("a text has the padding ", bits & 15));
        type->padding = static_cast<Datatype::Padding>(bits & 15);
        return absl::OkStatus();
      case kBits:
        in_.Skip(4);
        return Other("a field of bits", type);
      case kOpaque:
        in_.Skip((bits & 0xff) + (8 - (bits & 0xff) % 8) % 8);  // its tag
        type->kind = Datatype::Kind::kOpaque;
        type->what = "opaque";
        return absl::OkStatus();
      case kCompound:
        return ParseCompound(version, bits & 0xffff, depth, type);
      case kReference:
        return Other("a reference", type);
      case kEnum:
        return ParseEnum(version, bits & 0xffff, depth, type);
      case kVariable:
        return ParseVariable(bits & 15, depth, type);
      case kArray:
        return ParseArray(version, depth, type);
      case kComplex: {
        CASK_ASSIGN_OR_RETURN(const Datatype part, Parse(depth + 1));
        return SetComplex(part, type);
      }
      default:
        return absl::UnimplementedError(absl::StrCat("a datatype has the class ", type_class, ", which is not known"));
    }
  }

  static absl::Status Other(std::string what, Datatype* type) {
    type->kind = Datatype::Kind::kOther;
    type->what = std::move(what);
    return absl::OkStatus();
  }

  void ParseInteger(uint64_t bits, Datatype* type) {
    const uint64_t offset = in_.Uint(2);
    const uint64_t precision = in_.Uint(2);
    type->what = absl::StrCat("an integer of ", precision, " bits in ", type->size, " bytes");
    type->big_endian = (bits & 1) != 0;
    if (offset != 0 || precision != 8 * type->size) return;
    for (size_t i = 0; i < std::size(kIntegers); ++i) {
      if (type->size != uint64_t{1} << i) continue;
      type->kind = Datatype::Kind::kNumber;
      type->dtype = kIntegers[i][(bits >> 3) & 1];
    }
  }

  void ParseFloat(uint64_t bits, Datatype* type) {
    const uint64_t offset = in_.Uint(2);
    const uint64_t precision = in_.Uint(2);
    const uint64_t exponent = in_.Uint(1);
    const uint64_t exponent_bits = in_.Uint(1);
    const uint64_t mantissa = in_.Uint(1);
    const uint64_t mantissa_bits = in_.Uint(1);
    const uint64_t bias = in_.Uint(4);
    const uint64_t sign = (bits >> 8) & 0xff;
    const bool has_implied_one = ((bits >> 4) & 3) == 2;
    type->what = absl::StrCat("a floating-point number of ", precision, " bits in ", type->size, " bytes");
    type->big_endian = (bits & 1) != 0;
    const bool is_vax = (bits & 0x40) != 0;
    if (offset != 0 || precision != 8 * type->size || !has_implied_one || is_vax) return;
    for (const FloatForm& form : kFloats) {
      if (type->size == form.size && sign == form.sign && exponent == form.exponent &&
          exponent_bits == form.exponent_bits && mantissa == form.mantissa && mantissa_bits == form.mantissa_bits &&
          bias == form.bias) {
        type->kind = Datatype::Kind::kNumber;
        type->dtype = form.dtype;
      }
    }
  }

  static absl::Status SetComplex(const Datatype& part, Datatype* type) {
    type->big_endian = part.big_endian;
    if (part.dtype == DType::kFloat32 && type->size == 8) {
      type->dtype = DType::kComplex64;
    } else if (part.dtype == DType::kFloat64 && type->size == 16) {
      type->dtype = DType::kComplex128;
    } else {
      return Other("a complex number", type);
    }
    type->kind = Datatype::Kind::kNumber;
    return absl::OkStatus();
  }

  // The name of a member of a compound or enumeration.
  absl::string_view Name(uint64_t version) {
    const size_t start = in_.position();
    const absl::string_view name = in_.TextToNul();
    if (version < 3) in_.AlignTo8(start);
    return name;
  }

  // h5py stores a complex number as {r, i}.
  absl::Status ParseCompound(uint64_t version, uint64_t members, int depth, Datatype* type) {
    int offset_bytes = 1;  // in version 3: as many as the size needs
    while (offset_bytes < 4 && type->size >> (8 * offset_bytes) != 0) ++offset_bytes;
    Datatype first;
    bool is_complex = members == 2;
    for (uint64_t i = 0; i < members && in_.ok(); ++i) {
      const absl::string_view name = Name(version);
      const uint64_t offset = in_.Uint(version < 3 ? 4 : offset_bytes);
      if (version == 1) {
        const uint64_t axes = in_.Uint(1);  // for a member that is an array
        is_complex = is_complex && axes == 0;
        in_.Skip(3 + 4 + 4 + 4 * 4);
      }
      CASK_ASSIGN_OR_RETURN(Datatype member, Parse(depth + 1));
      is_complex = is_complex && name == (i == 0 ? "r" : "i") && offset == (i == 0 ? 0 : first.size) &&
                   (i == 0 || (member.dtype == first.dtype && member.big_endian == first.big_endian));
      if (i == 0) first = std::move(member);
    }
    if (is_complex && first.kind == Datatype::Kind::kNumber) return SetComplex(first, type);
    return Other("a compound", type);
  }

  // h5py stores a bool as an enumeration of the integers 0 and 1. Others are read as their integers.
  absl::Status ParseEnum(uint64_t version, uint64_t members, int depth, Datatype* type) {
    CASK_ASSIGN_OR_RETURN(const Datatype base, Parse(depth + 1));
    if (base.size != type->size || base.kind != Datatype::Kind::kNumber)
      return absl::DataLossError("an enumeration of no integers");
    std::vector<absl::string_view> names;
    for (uint64_t i = 0; i < members && in_.ok(); ++i) names.push_back(Name(version));
    std::vector<uint64_t> values;
    for (uint64_t i = 0; i < members && in_.ok(); ++i) {
      const absl::string_view value = in_.Bytes(base.size);
      values.push_back(base.size == 1 && !value.empty() ? static_cast<unsigned char>(value[0]) : kNoValue);
    }
    type->kind = Datatype::Kind::kNumber;
    type->dtype = base.dtype;
    type->big_endian = base.big_endian;
    const bool is_bool = names.size() == 2 && values.size() == 2 && names[0] == "FALSE" && values[0] == 0 &&
                         names[1] == "TRUE" && values[1] == 1;
    if (is_bool) type->dtype = DType::kBool;
    return absl::OkStatus();
  }

  absl::Status ParseVariable(uint64_t kind, int depth, Datatype* type) {
    CASK_RETURN_IF_ERROR(Parse(depth + 1).status());
    if (kind != 1) return Other("a sequence of any length", type);
    type->kind = Datatype::Kind::kLongText;
    return absl::OkStatus();
  }

  absl::Status ParseArray(uint64_t version, int depth, Datatype* type) {
    const uint64_t rank = in_.Uint(1);
    if (version < 3) in_.Skip(3);
    in_.Skip(4 * rank);
    if (version < 3) in_.Skip(4 * rank);
    CASK_RETURN_IF_ERROR(Parse(depth + 1).status());
    return Other("an array", type);
  }

  static constexpr uint64_t kNoValue = 256;

  Cursor& in_;
};

}  // namespace

absl::StatusOr<Datatype> ParseDatatype(Cursor* in) { return Parser(in).Parse(1); }

}  // namespace tensorcask::hdf5
