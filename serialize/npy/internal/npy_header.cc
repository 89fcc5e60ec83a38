#include "tensorcask/serialize/npy/internal/npy_header.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/npy/internal/literal_parser.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::npy {
namespace {

// What ml_dtypes calls its dtypes that NumPy lacks; each is as large in the file as in memory.
struct NamedType {
  absl::string_view name;
  uint64_t bytes;
};
constexpr NamedType kNamedTypes[] = {
    {"bfloat16", 2},       {"float8_e3m4", 1},     {"float8_e4m3", 1},   {"float8_e4m3b11fnuz", 1},
    {"float8_e4m3fn", 1},  {"float8_e4m3fnuz", 1}, {"float8_e5m2", 1},   {"float8_e5m2fnuz", 1},
    {"float8_e8m0fnu", 1}, {"float6_e2m3fn", 1},   {"float6_e3m2fn", 1}, {"float4_e2m1fn", 1},
    {"int4", 1},           {"uint4", 1},           {"int2", 1},          {"uint2", 1},
};

// What else np.dtype takes for a type, some of it only before NumPy 2, as a type code. Sizes are those of 64-bit Linux.
struct OtherName {
  absl::string_view name;
  absl::string_view type;
};
constexpr OtherName kOtherNames[] = {
    {"bool", "b1"},        {"bool_", "b1"},         {"bool8", "b1"},       {"byte", "i1"},
    {"int8", "i1"},        {"short", "i2"},         {"int16", "i2"},       {"intc", "i4"},
    {"int32", "i4"},       {"int", "i8"},           {"int_", "i8"},        {"int64", "i8"},
    {"int0", "i8"},        {"long", "i8"},          {"longlong", "i8"},    {"intp", "i8"},
    {"ubyte", "u1"},       {"uint8", "u1"},         {"ushort", "u2"},      {"uint16", "u2"},
    {"uintc", "u4"},       {"uint32", "u4"},        {"uint", "u8"},        {"uint64", "u8"},
    {"uint0", "u8"},       {"ulong", "u8"},         {"ulonglong", "u8"},   {"uintp", "u8"},
    {"half", "f2"},        {"float16", "f2"},       {"single", "f4"},      {"float32", "f4"},
    {"float", "f8"},       {"float_", "f8"},        {"double", "f8"},      {"float64", "f8"},
    {"longdouble", "f16"}, {"longfloat", "f16"},    {"float128", "f16"},   {"csingle", "c8"},
    {"complex64", "c8"},   {"singlecomplex", "c8"}, {"complex", "c16"},    {"complex_", "c16"},
    {"cdouble", "c16"},    {"cfloat", "c16"},       {"complex128", "c16"}, {"clongdouble", "c32"},
    {"clongfloat", "c32"}, {"longcomplex", "c32"},  {"complex256", "c32"}, {"bytes", "S0"},
    {"bytes_", "S0"},      {"bytes0", "S0"},        {"string_", "S0"},     {"str", "U0"},
    {"str_", "U0"},        {"str0", "U0"},          {"unicode", "U0"},     {"unicode_", "U0"},
    {"void", "V0"},        {"void0", "V0"},         {"object", "O"},       {"object_", "O"},
    {"object0", "O"},
};
// Those that may have a byte order.
constexpr OtherName kLetters[] = {
    {"?", "b1"},  {"b", "i1"},          {"h", "i2"},           {"i", "i4"}, {"l", "i8"},  {"q", "i8"}, {"p", "i8"},
    {"n", "i8"},  {"B", "u1"},          {"H", "u2"},           {"I", "u4"}, {"L", "u8"},  {"Q", "u8"}, {"P", "u8"},
    {"N", "u8"},  {"e", "f2"},          {"f", "f4"},           {"d", "f8"}, {"g", "f16"}, {"F", "c8"}, {"D", "c16"},
    {"G", "c32"}, {"S", "S0"},          {"a", "S0"},           {"c", "S1"}, {"U", "U0"},  {"V", "V0"}, {"M", "M8"},
    {"m", "m8"},  {"datetime64", "M8"}, {"timedelta64", "m8"},
};

// `type` as a type code if it is one of `names`; else the same.
absl::string_view TypeCode(absl::Span<const OtherName> names, absl::string_view type) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const OtherName& one) { return one.name == type; });
  return found == names.end() ? type : found->type;
}

// "datetime64[ns]", "M[ns]" is "M8[ns]".
std::string TimeCode(absl::string_view type) {
  const size_t unit = type.find('[');
  if (unit == absl::string_view::npos) return std::string(TypeCode(kLetters, type));
  return absl::StrCat(TypeCode(kLetters, type.substr(0, unit)), type.substr(unit));
}

// The sizes that NumPy has for a kind of number.
bool IsNumpySize(char kind, uint64_t bytes) {
  switch (kind) {
    case 'b':
      return bytes == 1;
    case 'i':
    case 'u':
      return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    case 'f':  // 1: ml_dtypes' float8_e5m2; 10, 12, 16: long double
      return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 10 || bytes == 12 || bytes == 16;
    case 'c':
      return bytes == 8 || bytes == 16 || bytes == 20 || bytes == 24 || bytes == 32;
    case 'M':
    case 'm':
      return bytes == 8;
    default:
      return true;
  }
}

absl::Status BadType(absl::string_view descr) {
  return absl::InvalidArgumentError(absl::StrCat("header: unknown type ", Quoted(descr)));
}

// "<f4" to kind, bytes and byte order.
absl::StatusOr<NpyLeaf> ParseType(absl::string_view descr) {
  NpyLeaf leaf;
  leaf.descr = std::string(descr);
  for (const NamedType& named : kNamedTypes) {
    if (descr != named.name) continue;
    leaf.kind = 'n';
    leaf.item_bytes = named.bytes;
    return leaf;
  }
  absl::string_view type = TypeCode(kOtherNames, descr);
  absl::string_view order;
  if (!type.empty() && absl::string_view("<>|=").find(type[0]) != absl::string_view::npos) {
    order = type.substr(0, 1);
    leaf.big_endian = order == ">";
    type.remove_prefix(1);
  }
  const std::string code = TimeCode(type);
  leaf.descr = absl::StrCat(order, code);
  absl::string_view rest = code;
  if (rest.empty()) return BadType(descr);
  leaf.kind = rest[0] == 'a' ? 'S' : rest[0];
  rest.remove_prefix(1);
  if (absl::string_view("biufcSUVMmO").find(leaf.kind) == absl::string_view::npos) return BadType(descr);
  const size_t digits = std::find_if_not(rest.begin(), rest.end(), absl::ascii_isdigit) - rest.begin();
  if (leaf.kind == 'O') {  // "|O", and "|O8" of Python 2
    if (digits != rest.size()) return BadType(descr);
    return leaf;
  }
  if (digits == 0 || digits > 10) return BadType(descr);
  for (const char digit : rest.substr(0, digits)) leaf.item_bytes = leaf.item_bytes * 10 + (digit - '0');
  rest.remove_prefix(digits);
  const bool is_time = leaf.kind == 'M' || leaf.kind == 'm';
  if (!rest.empty()) {  // the unit: "[D]", "[25s]"
    const bool has_brackets = rest.size() > 2 && rest.front() == '[' && rest.back() == ']';
    if (!is_time || !has_brackets || rest.size() > 32 ||
        !std::all_of(rest.begin() + 1, rest.end() - 1, [](char c) { return absl::ascii_isalnum(c) || c == '/'; })) {
      return BadType(descr);
    }
  }
  if (!IsNumpySize(leaf.kind, leaf.item_bytes)) return BadType(descr);
  if (leaf.kind == 'U') leaf.item_bytes *= 4;
  if (leaf.item_bytes > kMaxItemBytes) {
    return absl::InvalidArgumentError(absl::StrCat("header: an element of type ", Quoted(descr), " takes ",
                                                   leaf.item_bytes, " bytes; the limit is ", kMaxItemBytes));
  }
  return leaf;
}

// A type and what it takes: one leaf named "", or those of a structure.
struct Record {
  std::vector<NpyLeaf> leaves;
  uint64_t bytes = 0;
  bool is_structured = false;
};

struct FieldName {
  std::string name;
  bool is_padding = false;  // has no name: padding, if it is opaque
};

absl::Status TooLarge(absl::string_view field) {
  return absl::InvalidArgumentError(
      absl::StrCat("header: a structure with field ", Quoted(field), " takes more than ", kMaxItemBytes, " bytes"));
}

// A type code, or a list of fields.
class DescrParser {
 public:
  explicit DescrParser(LiteralParser* parser) : parser_(parser) {}

  // `depth` counts the structures around it.
  absl::StatusOr<Record> Parse(int depth);

 private:
  absl::StatusOr<FieldName> ParseFieldName();
  absl::Status ParseField(int depth, absl::flat_hash_set<std::string>* names, Record* record);
  absl::StatusOr<Record> Repeat(Record inner, const DimVector& dims, absl::string_view field);
  absl::Status Spend(uint64_t bytes);

  LiteralParser* parser_;
  // Names and dims of a structure are repeated for each field inside: a short text could make much of them.
  uint64_t spent_ = 0;
};

absl::Status DescrParser::Spend(uint64_t bytes) {
  constexpr uint64_t kMost = uint64_t{8} << 20;
  spent_ += bytes;  // each is far below 2^63
  if (spent_ <= kMost) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("header: the names and dims of all fields take more than ", kMost, " bytes"));
}

// 'name' or ('title', 'name').
absl::StatusOr<FieldName> DescrParser::ParseFieldName() {
  FieldName field;
  if (parser_->Consume('(')) {
    CASK_RETURN_IF_ERROR(parser_->String().status());
    CASK_RETURN_IF_ERROR(parser_->Expect(','));
    CASK_ASSIGN_OR_RETURN(field.name, parser_->String());
    parser_->Consume(',');
    CASK_RETURN_IF_ERROR(parser_->Expect(')'));
  } else {
    CASK_ASSIGN_OR_RETURN(field.name, parser_->String());
  }
  field.is_padding = field.name.empty();
  return field;
}

// Repeats `inner` over `dims`, which are outside its own.
absl::StatusOr<Record> DescrParser::Repeat(Record inner, const DimVector& dims, absl::string_view field) {
  CASK_RETURN_IF_ERROR(Spend(inner.leaves.size() * dims.size() * 2 * sizeof(int64_t)));
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Create(dims));
  DimVector strides(dims.size());
  uint64_t step = inner.bytes;
  for (size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = static_cast<int64_t>(step);
    const std::optional<uint64_t> next = CheckedMul(step, static_cast<uint64_t>(std::max<int64_t>(dims[axis], 1)));
    if (!next || *next > kMaxItemBytes) return TooLarge(field);
    step = *next;
  }
  inner.bytes = shape.num_elements() == 0 ? 0 : step;
  for (NpyLeaf& leaf : inner.leaves) {
    leaf.dims.insert(leaf.dims.begin(), dims.begin(), dims.end());
    leaf.byte_strides.insert(leaf.byte_strides.begin(), strides.begin(), strides.end());
  }
  return inner;
}

// One field, ('name', type) or ('name', type, dims), after those in *record.
absl::Status DescrParser::ParseField(int depth, absl::flat_hash_set<std::string>* names, Record* record) {
  CASK_RETURN_IF_ERROR(parser_->Expect('('));
  CASK_ASSIGN_OR_RETURN(const FieldName field, ParseFieldName());
  CASK_RETURN_IF_ERROR(parser_->Expect(','));
  CASK_ASSIGN_OR_RETURN(Record inner, Parse(depth + 1));
  if (parser_->Consume(',') && !parser_->Peek(')')) {
    DimVector dims;
    if (parser_->Peek('(')) {
      CASK_ASSIGN_OR_RETURN(dims, parser_->Dims());
    } else {
      CASK_ASSIGN_OR_RETURN(const int64_t dim, parser_->Integer());
      dims.push_back(dim);
    }
    CASK_ASSIGN_OR_RETURN(inner, Repeat(std::move(inner), dims, field.name));
    parser_->Consume(',');
  }
  CASK_RETURN_IF_ERROR(parser_->Expect(')'));
  const std::optional<uint64_t> end = CheckedAdd(record->bytes, inner.bytes);
  if (!end || *end > kMaxItemBytes) return TooLarge(field.name);
  const uint64_t offset = std::exchange(record->bytes, *end);
  if (field.is_padding) {
    if (inner.is_structured || inner.leaves[0].kind != 'V') {
      return absl::InvalidArgumentError("header: a field without a name that is no padding");
    }
    return absl::OkStatus();
  }
  if (!names->insert(field.name).second) {
    return absl::InvalidArgumentError(absl::StrCat("header: two fields are named ", Quoted(field.name)));
  }
  CASK_RETURN_IF_ERROR(Spend(inner.leaves.size() * field.name.size()));
  for (NpyLeaf& leaf : inner.leaves) {
    leaf.name = inner.is_structured ? absl::StrCat(field.name, ".", leaf.name) : field.name;
    leaf.offset += offset;
    record->leaves.push_back(std::move(leaf));
  }
  return absl::OkStatus();
}

absl::StatusOr<Record> DescrParser::Parse(int depth) {
  Record record;
  if (!parser_->Peek('[')) {
    CASK_ASSIGN_OR_RETURN(const std::string descr, parser_->String());
    CASK_ASSIGN_OR_RETURN(NpyLeaf leaf, ParseType(descr));
    record.bytes = leaf.item_bytes;
    record.leaves.push_back(std::move(leaf));
    return record;
  }
  if (depth == kMaxNesting) return parser_->Error(absl::StrCat("at most ", kMaxNesting, " structures in one another"));
  CASK_RETURN_IF_ERROR(parser_->Expect('['));
  record.is_structured = true;
  absl::flat_hash_set<std::string> names;
  while (!parser_->Consume(']')) {
    CASK_RETURN_IF_ERROR(ParseField(depth, &names, &record));
    if (parser_->Consume(',')) continue;
    CASK_RETURN_IF_ERROR(parser_->Expect(']'));
    break;
  }
  return record;
}

// The three values of the header.
struct Fields {
  Record descr;
  bool fortran_order = false;
  DimVector shape;
  bool has_descr = false;
  bool has_fortran_order = false;
  bool has_shape = false;
};

absl::Status ParseEntry(LiteralParser* parser, Fields* fields) {
  CASK_ASSIGN_OR_RETURN(const std::string key, parser->String());
  bool* const has = key == "descr"           ? &fields->has_descr
                    : key == "fortran_order" ? &fields->has_fortran_order
                    : key == "shape"         ? &fields->has_shape
                                             : nullptr;
  if (has == nullptr) return absl::InvalidArgumentError(absl::StrCat("header: unknown key ", Quoted(key)));
  if (*has) return absl::InvalidArgumentError(absl::StrCat("header: key ", Quoted(key), " occurs twice"));
  *has = true;
  CASK_RETURN_IF_ERROR(parser->Expect(':'));
  if (key == "descr") {
    CASK_ASSIGN_OR_RETURN(fields->descr, DescrParser(parser).Parse(0));
  } else if (key == "fortran_order") {
    CASK_ASSIGN_OR_RETURN(fields->fortran_order, parser->Bool());
  } else {
    CASK_ASSIGN_OR_RETURN(fields->shape, parser->Dims());
  }
  return absl::OkStatus();
}

absl::StatusOr<Fields> ParseFields(absl::string_view text, bool is_utf8) {
  LiteralParser parser(text, is_utf8);
  Fields fields;
  CASK_RETURN_IF_ERROR(parser.Expect('{'));
  while (!parser.Consume('}')) {
    CASK_RETURN_IF_ERROR(ParseEntry(&parser, &fields));
    if (parser.Consume(',')) continue;
    CASK_RETURN_IF_ERROR(parser.Expect('}'));
    break;
  }
  if (!parser.AtEnd()) return parser.Error("the end of the header");
  for (const auto& [key, is_there] : {std::pair<absl::string_view, bool>("descr", fields.has_descr),
                                      {"fortran_order", fields.has_fortran_order},
                                      {"shape", fields.has_shape}}) {
    if (!is_there) return absl::InvalidArgumentError(absl::StrCat("header: key ", Quoted(key), " is missing"));
  }
  return fields;
}

}  // namespace

absl::StatusOr<NpyPrefix> ParseNpyPrefix(absl::string_view start) {
  if (start.substr(0, kMagic.size()) != kMagic || start.size() < kMagic.size() + 4) {
    return absl::InvalidArgumentError("not an npy file: it does not begin with \\x93NUMPY, a version and a length");
  }
  const int major = static_cast<unsigned char>(start[6]);
  const int minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return absl::UnimplementedError(
        absl::StrCat("version ", major, ".", minor, " of the npy format; versions 1.0, 2.0 and 3.0 are read"));
  }
  NpyPrefix prefix;
  prefix.major_version = major;
  prefix.prefix_bytes = major == 1 ? 10 : 12;
  if (start.size() < prefix.prefix_bytes) return absl::InvalidArgumentError("ends within the length of its header");
  prefix.text_bytes =
      major == 1 ? LoadLittleEndian<uint16_t>(start.data() + 8) : LoadLittleEndian<uint32_t>(start.data() + 8);
  return prefix;
}

absl::StatusOr<NpyHeader> ParseNpyHeader(const NpyPrefix& prefix, absl::string_view text) {
  CASK_ASSIGN_OR_RETURN(Fields fields, ParseFields(text, prefix.major_version == 3));
  NpyHeader header;
  header.fortran_order = fields.fortran_order;
  header.is_structured = fields.descr.is_structured;
  header.record_bytes = fields.descr.bytes;
  header.leaves = std::move(fields.descr.leaves);
  CASK_ASSIGN_OR_ANNOTATE(header.shape, TensorShape::Create(fields.shape), "header");
  if (header.leaves.empty()) return absl::InvalidArgumentError("header: a structure without fields");
  header.has_objects =
      std::any_of(header.leaves.begin(), header.leaves.end(), [](const NpyLeaf& leaf) { return leaf.kind == 'O'; });
  const std::optional<uint64_t> data_bytes =
      CheckedMul(static_cast<uint64_t>(header.shape.num_elements()), header.record_bytes);
  if (!data_bytes || *data_bytes > static_cast<uint64_t>(INT64_MAX)) {
    return absl::InvalidArgumentError(absl::StrCat("header: shape ", header.shape.ToString(), " of ",
                                                   header.record_bytes, " bytes each takes more than 2^63 bytes"));
  }
  header.data_bytes = *data_bytes;
  return header;
}

}  // namespace tensorcask::npy
