// What this process has begun and not finished, .part files and folders made for output: known to a signal handler that
// ends it, so that neither is left.
#pragma once
#include <string>

namespace openwork {

// Beyond a few dozen at a time the next one is not known; the next writer removes what it left.
void note_unfinished(const std::string& path);
void forget_unfinished(const std::string& path);

// Removes the files, and the folders where nothing is in them. For a signal handler: calls nothing that one may not.
void remove_unfinished();

}  // namespace openwork
