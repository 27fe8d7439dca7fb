#include "copy/copy_params.h"

#include "common/params.h"

namespace heddle::copy {

void CopyParams::describe(ParamTable<CopyParams>& t) {
  t.add("engines", &CopyParams::engines, {Unit::count, 1, 64}, "copy engines: copies and fills that run side by side",
        "HST-05: two");
  t.add("bandwidth", &CopyParams::bandwidth, {Unit::bytes_per_cycle, 0.25, 10'000.0},
        "bytes per cycle that an engine moves at most; the ways to memory and to the host have limits of their own",
        "assumption: 112 GB/s at 1.755 GHz, twice the host's link");
  t.add("outstanding", &CopyParams::outstanding, {Unit::count, 1, 65'536},
        "pieces of at most a line that an engine has read or written without an answer yet",
        "assumption: 64 KiB, enough to keep a link of 55 GB/s busy over 1.1 us");
  t.add("set_up", &CopyParams::set_up, {Unit::ns, 0.0, 1e9},
        "from taking a request to its first read, or to the first write of a fill", "assumption");
}

}  // namespace heddle::copy
