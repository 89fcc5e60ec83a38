// The object graph of a checkpoint some of whose tensors get other names or are left out (object_graph.h).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_EDIT_GRAPH_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_EDIT_GRAPH_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"

namespace tensorcask::checkpoint {

// The tensor that holds the graph.
inline constexpr char kGraphName[] = "_CHECKPOINTABLE_OBJECT_GRAPH";
// How refusals end, here and in edit_index.h.
inline constexpr char kWithoutGraphHint[] =
    " leave out the graph too (tensor _CHECKPOINTABLE_OBJECT_GRAPH) for a checkpoint that is only read by names";

// By the name of each tensor of the checkpoint: its new name, "" if it is left out.
using NewNames = std::map<std::string, std::string>;

// `message` with the new names. A variable that is left out is not an object of the new graph, so TensorFlow reports a
// variable of the program that finds no value. Other fields keep their bytes, unknown ones included.
// Errors: FailedPrecondition, naming the tensor, where TensorFlow could not restore from the result: a variable whose
// new name does not end in "/.ATTRIBUTES/VARIABLE_VALUE", a renamed tensor of another object (a table), a part of the
// tensors of one object, an object that is reached only through one that is left out. As DecodeObjectGraph.
absl::StatusOr<std::string> EditObjectGraph(absl::string_view message, const NewNames& names,
                                            const DecodeLimits& limits = {});

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_EDIT_GRAPH_H_
