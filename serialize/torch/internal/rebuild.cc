#include "tensorcask/serialize/torch/internal/rebuild.h"

#include <vector>

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

absl::StatusOr<Ref> MakeFromType(const CallArguments& call) {
  constexpr absl::string_view kWanted = "a function, a type, arguments and a state";
  if (call.size() != 4 || !call.Is(0, Kind::kGlobal) || !call.Is(2, Kind::kTuple)) return call.Wrong(kWanted);
  if (call.Named(0, GlobalUse::kFromType) != nullptr) return call.Wrong("another function than itself");
  PickleBuilder& builder = call.builder();
  CASK_ASSIGN_OR_RETURN(const Ref made, Call(call.ref(0), call.ref(2), &builder));
  if (builder.object(made).kind != Kind::kTensor) return made;
  PickledTensor tensor = builder.pickle().tensors[builder.object(made).index];
  // Slots and a dict, or only a dict.
  tensor.state = call.ref(3);
  if (call.Is(3, Kind::kTuple) && call.list(3).size() == 2) tensor.state = call.list(3)[1];
  return builder.NewTensor(tensor);
}

absl::Status NotCalled(const Global& global) {
  return absl::DataLossError(absl::StrCat("calls ", Quoted(global.name), ", which files of tensors only name"));
}

}  // namespace

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
      if (call.size() == 4 && call.Is(0, Kind::kTensor)) return call.ref(0);
      return call.Wrong("a tensor, a dtype, a device and requires_grad");
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
      return MakeDict(call);
    case GlobalUse::kDefaultDict:
      return builder->List(Kind::kDict, {});
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
    case GlobalUse::kPlainObject:
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
      return absl::OkStatus();  // _metadata, the versions of modules: not a part of the values
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
