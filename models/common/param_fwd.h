// For headers of parameter blocks, which only declare describe(): what a table is, common/param_table.h says.
#pragma once

namespace heddle {

template <class P>
class ParamTable;
class ParamBinder;
struct ParamEntry;
template <class T>
struct ParamTraits;

}  // namespace heddle
