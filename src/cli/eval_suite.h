// openwork eval --suite: the capability tests for any number of models.
#pragma once
#include <string>
#include <vector>

#include "shell/common.h"

namespace openwork {

struct SuiteVerbOptions {
  std::string tests, out;
  int64_t prompts = 0;  // 0: kSuitePrompts
};

inline constexpr int64_t kSuitePrompts = 64;

void add_suite_options(CLI::App& verb, SuiteVerbOptions& options);

void run_eval_suite(CommonOptions& common, const std::vector<std::string>& models,
                    const std::vector<std::string>& data, int64_t context, const SuiteVerbOptions& options);

}  // namespace openwork
