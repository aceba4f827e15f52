#include "trace/record.h"

const char *dl_record_kind_name(dl_record_kind kind)
{
    static const char *const names[] = {
        [DL_RECORD_STEP] = "step",         [DL_RECORD_COMPUTE] = "compute",
        [DL_RECORD_COPY] = "copy",         [DL_RECORD_AVERAGE] = "average",
        [DL_RECORD_WAIT] = "wait",         [DL_RECORD_INPUT] = "input",
        [DL_RECORD_SLOWDOWN] = "slowdown", [DL_RECORD_BENCH] = "bench",
    };
    return kind >= DL_RECORD_STEP && kind <= DL_RECORD_BENCH ? names[kind] : "unknown";
}

const char *dl_phase_name(dl_phase phase)
{
    static const char *const names[] = {"none", "forward", "backward", "update", "push", "pull"};
    return (unsigned)phase <= DL_PHASE_PULL ? names[phase] : "unknown";
}
