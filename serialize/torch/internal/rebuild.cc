#include "tensorcask/serialize/torch/internal/rebuild.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/torch/internal/call_arguments.h"
#include "tensorcask/serialize/torch/internal/globals.h"
#include "tensorcask/serialize/torch/internal/numpy_values.h"
#include "tensorcask/serialize/torch/internal/rebuild_tensors.h"
#include "tensorcask/serialize/torch/internal/rebuild_values.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::torch {
namespace {

using Kind = Object::Kind;

// An identifier of ASCII letters, digits and "_" that begins with a letter. Names that begin with "_" are those of
// Python itself, by which everything can be reached.
bool IsMemberName(absl::string_view name) {
  return !name.empty() && absl::ascii_isalpha(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c == '_' || absl::ascii_isalnum(static_cast<unsigned char>(c)); });
}

absl::StatusOr<Ref> MakeFromType(const CallArguments& call) {
  constexpr absl::string_view kWanted = "a function, a type, arguments and a state";
  if (call.size() != 4 || !call.Is(0, Kind::kGlobal) || !call.Is(2, Kind::kTuple)) return call.Wrong(kWanted);
  if (call.Named(0, GlobalUse::kFromType) != nullptr) return call.Wrong("another function than itself");
  PickleBuilder& builder = call.builder();
  CASK_ASSIGN_OR_RETURN(const Ref made, Call(call.ref(0), call.ref(2), &builder));
  if (builder.object(made).kind != Kind::kTensor) {
    CASK_RETURN_IF_ERROR(SetState(made, call.ref(3), &builder));
    return made;
  }
  PickledTensor tensor = builder.pickle().tensors[builder.object(made).index];
  if (tensor.state != kNoRef) return absl::DataLossError("a tensor gets two states");
  tensor.state = call.ref(3);
  return builder.NewTensor(tensor);
}

absl::StatusOr<Ref> MakeFromCpuTensor(const CallArguments& call) {
  const Global* const dtype = call.Named(1, GlobalUse::kDType);
  if (call.size() != 4 || !call.Is(0, Kind::kTensor) || dtype == nullptr || !call.Is(3, Kind::kBool)) {
    return call.Wrong("a tensor, a dtype, a device and requires_grad");
  }
  PickledTensor tensor = call.builder().pickle().tensors[call.at(0).index];
  if (dtype->dtype == DType::kInvalid || dtype->dtype != tensor.dtype) {
    return absl::UnimplementedError(absl::StrCat("a tensor of ", Quoted(dtype->name), " that is stored as ",
                                                 DTypeName(tensor.dtype), ", which is not converted"));
  }
  tensor.requires_grad = call.at(3).integer != 0;
  return call.builder().NewTensor(tensor);
}

// A list of its own, which keeps the last items if there is a bound.
absl::StatusOr<Ref> MakeDeque(const CallArguments& call) {
  const bool is_bounded = call.Is(1, Kind::kInt) && call.at(1).integer >= 0;
  if (call.size() > 2 || (call.size() > 0 && !call.IsList(0)) ||
      (call.size() == 2 && !is_bounded && !call.Is(1, Kind::kNone))) {
    return call.Wrong("a list and the largest number of items");
  }
  const absl::Span<const Ref> items = call.size() > 0 ? call.list(0) : absl::Span<const Ref>();
  if (!is_bounded) return call.builder().List(Kind::kList, items);
  const int64_t most = std::min(call.at(1).integer, std::numeric_limits<int64_t>::max() - 1);
  return call.builder().BoundedList(items.last(std::min(items.size(), static_cast<size_t>(most))), most);
}

// A class and the name of a member: the same object as a call of the class with the value of the member. All other
// arguments would have Python reach what the class can reach.
absl::StatusOr<Ref> MakeEnumMember(const CallArguments& call) {
  if (call.size() != 2 || call.Named(0, GlobalUse::kEnumClass) == nullptr || !call.Is(1, Kind::kText) ||
      !IsMemberName(call.at(1).text)) {
    return MisusesGetAttr();
  }
  PickleBuilder& builder = call.builder();
  const Ref name = call.ref(1);
  return builder.NewInstance({call.ref(0), builder.List(Kind::kTuple, {name})});
}

absl::Status NotCalled(const Global& global) {
  return absl::DataLossError(absl::StrCat("calls ", Quoted(global.name), ", which files of tensors only name"));
}

}  // namespace

absl::Status MisusesGetAttr() {
  constexpr absl::string_view kName = "builtins.getattr";
  return absl::UnimplementedError(absl::StrCat("names ", Quoted(kName), ", which ", WhatItWouldDo(kName)));
}

absl::StatusOr<Ref> Call(Ref callable, Ref arguments, PickleBuilder* builder) {
  if (builder->object(callable).kind != Kind::kGlobal) {
    return absl::DataLossError("calls a value, which is not a function");
  }
  if (builder->object(arguments).kind != Kind::kTuple) {
    return absl::DataLossError("a function is called with something that is not a tuple");
  }
  const Global global = builder->pickle().globals[builder->object(callable).index];
  const CallArguments call(global, arguments, builder);
  switch (global.use) {
    case GlobalUse::kTensor:
    case GlobalUse::kTensorV3:
    case GlobalUse::kQuantized:
      return MakeTensor(call, global.use);
    case GlobalUse::kParameter:
      return MakeParameter(call);
    case GlobalUse::kSparse:
      return MakeSparse(call);
    case GlobalUse::kMeta:
    case GlobalUse::kWrapper:
      return MakeShell(call, global.use);
    case GlobalUse::kFromType:
      return MakeFromType(call);
    case GlobalUse::kFromCpuTensor:
      return MakeFromCpuTensor(call);
    case GlobalUse::kFromNumpy:
      return MakeTensorFromNumpy(call);
    case GlobalUse::kLayout:
      if (call.size() == 1 && call.Is(0, Kind::kText)) return call.ref(0);
      return call.Wrong("the name of a layout");
    case GlobalUse::kSize:
      if (call.size() == 1 && call.Is(0, Kind::kTuple)) return builder->Retyped(call.ref(0), Kind::kSize);
      return call.Wrong("a tuple");
    case GlobalUse::kDevice:
      return MakeDevice(call);
    case GlobalUse::kDict:
      return MakeDict(call, 0);
    case GlobalUse::kCounter:
      if (call.size() == 0 || call.Is(0, Kind::kDict)) return MakeDict(call, 0);
      return call.Wrong("a dict of counts");
    case GlobalUse::kDefaultDict:
      if (call.size() == 0 || call.Is(0, Kind::kNone) || call.Is(0, Kind::kGlobal) || call.Is(0, Kind::kObject)) {
        return MakeDict(call, 1);
      }
      return call.Wrong("a function, and nothing, a dict or a list of pairs");
    case GlobalUse::kDeque:
      return MakeDeque(call);
    case GlobalUse::kList:
      if (call.size() == 0) return builder->List(Kind::kList, {});
      if (call.Is(0, Kind::kList)) return call.ref(0);
      if (call.Is(0, Kind::kTuple)) return builder->List(Kind::kList, call.list(0));
      return call.Wrong("a list");
    case GlobalUse::kSet: {
      if (call.size() == 0) return builder->List(Kind::kSet, {});
      if (call.size() != 1 || !call.IsList(0)) return call.Wrong("a list");
      return builder->List(Kind::kSet, call.list(0));
    }
    case GlobalUse::kComplex:
      return MakeComplex(call);
    case GlobalUse::kBytes:
    case GlobalUse::kEncode:
      return MakeBytes(call);
    case GlobalUse::kTypeTag:
      if (call.size() == 2) return call.ref(0);
      return call.Wrong("a value and its type");
    case GlobalUse::kNumpyDType:
      return MakeNumpyDType(call);
    case GlobalUse::kNumpyReconstruct:
      return MakeNumpyArray(call);
    case GlobalUse::kNumpyFromBuffer:
      return MakeNumpyArrayFromBuffer(call);
    case GlobalUse::kNumpyScalar:
      return MakeNumpyScalar(call);
    case GlobalUse::kPath:
      return MakePath(call, global.name);
    case GlobalUse::kGetAttr:
      return MakeEnumMember(call);
    case GlobalUse::kPlainObject:
    case GlobalUse::kEnumClass:
    case GlobalUse::kUnknown:
      return builder->NewInstance({callable, arguments});
    case GlobalUse::kStorage:
    case GlobalUse::kDType:
    case GlobalUse::kScheme:
    case GlobalUse::kTensorClass:
    case GlobalUse::kNumpyArrayClass:
      break;
  }
  return NotCalled(global);
}

absl::Status SetState(Ref target, Ref state, PickleBuilder* builder) {
  switch (builder->object(target).kind) {
    case Kind::kDict:
      if (builder->object(state).kind != Kind::kDict) {
        return absl::DataLossError("the attributes of a dict are not a dict");
      }
      builder->AddDictState(state);  // ListDictAttributes checks them
      return absl::OkStatus();
    case Kind::kNumpyArray:
      return SetArray(target, state, builder);
    case Kind::kNumpyDType:
      return SetNumpyDType(target, state, builder);
    case Kind::kTensor:
      if (builder->tensor(target)->state != kNoRef) return absl::DataLossError("a tensor gets two states");
      builder->tensor(target)->state = state;
      return absl::OkStatus();
    case Kind::kObject: {
      if (builder->instance(target)->state != kNoRef) return absl::DataLossError("an object gets two states");
      builder->instance(target)->state = state;
      return absl::OkStatus();
    }
    default:
      return absl::DataLossError("sets the state of a value that has none");
  }
}

}  // namespace tensorcask::torch
