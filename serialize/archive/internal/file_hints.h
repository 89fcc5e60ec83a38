// What a file is that no format recognizes, for the error that refuses it.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_FILE_HINTS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_FILE_HINTS_H_

#include <string>

#include "tensorcask/serialize/archive/archive_format.h"

namespace tensorcask::archive {

// "this is a data file of the checkpoint m: name the checkpoint": what the name of the file, or its first bytes, show,
// and what to do. "" if they show nothing but text. Knows data files of checkpoints, temporary files of unfinished
// saves, and what LookAtContent (serialize/io/content_hint.h) knows.
// Requires: probe.file is not null.
std::string FileHint(const ArchiveProbe& probe);

// The part of it that follows from the name: a file of a known format may be unfinished, too.
std::string UnfinishedHint(const std::string& path);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_FILE_HINTS_H_
