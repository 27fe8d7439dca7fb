// The operators and functions of expressions.
#pragma once

#include <string>
#include <vector>

namespace mu {
class Parser;
}

namespace heddle::workload {

// Replaces muParser's functions and constants by those that docs/scenario.md lists.
void define_functions(mu::Parser& parser);

const std::vector<std::string>& function_names();

// muParser's name of an operator that it does not have itself ("//" is "quotient"); null: it has it, or there is none.
const char* operator_word(const std::string& symbol);

}  // namespace heddle::workload
