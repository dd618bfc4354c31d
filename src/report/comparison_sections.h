// The sections of the comparison page, one function each: a part of the record in, HTML out. A section whose
// part of the record is empty is an empty string.
#pragma once
#include <string>

#include "report/comparison_record.h"

namespace openwork {

std::string summary_section(const ComparisonRecord& record, const std::vector<std::string>& findings);
std::string loss_section(const ComparisonRecord& record);
std::string cost_section(const ComparisonRecord& record);
std::string heads_section(const ComparisonRecord& record);
std::string heads_style(const ComparisonRecord& record);  // rules that its sheets need
std::string statistics_section(const ComparisonRecord& record);
std::string scatter_section(const ComparisonRecord& record);
std::string tasks_section(const ComparisonRecord& record);
std::string trace_section(const ComparisonRecord& record);
std::string samples_section(const ComparisonRecord& record);
std::string protocol_section(const ComparisonRecord& record);

}  // namespace openwork
