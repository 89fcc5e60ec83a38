// What the name and the first bytes of a file show beside its format: of one that no format recognizes, for the error
// that refuses it, and of one that is only a part.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_FILE_HINTS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_FILE_HINTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"

namespace tensorcask::archive {

// "this is a data file of the checkpoint m: name the checkpoint": what the name of the file, or its first bytes, show,
// and what to do. "" if they show nothing but text. Knows data files of checkpoints, temporary files of unfinished
// saves, and what LookAtContent (serialize/io/content_hint.h) knows.
// Requires: probe.file is not null.
std::string FileHint(const ArchiveProbe& probe);

// The part of it that follows from the name: a file of a known format may be unfinished, too.
std::string UnfinishedHint(const std::string& path);

// The note that "model-00001-of-00003.safetensors" is one of three files of a model, or of another format's file with
// such a name; none for other names, and where there is one file.
std::vector<std::string> NotesOfName(absl::string_view path);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_FILE_HINTS_H_
