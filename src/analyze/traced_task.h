// A task's prompts as prompts to trace: each up to where its answer is read, traced to that answer.
#pragma once
#include <vector>

#include "analyze/circuits/task.h"
#include "analyze/trace/trace_question.h"

namespace openwork {

// `traced` gives the texts: its tokenizer is there.
std::vector<TracePrompt> trace_prompts_of(const Task& task, const TracedModel& traced);

}  // namespace openwork
