#include "trace/record.h"

const char *dl_record_kind_name(dl_record_kind kind)
{
    switch (kind) {
    case DL_RECORD_STEP: return "step";
    case DL_RECORD_COMPUTE: return "compute";
    case DL_RECORD_COPY: return "copy";
    case DL_RECORD_AVERAGE: return "average";
    case DL_RECORD_WAIT: return "wait";
    case DL_RECORD_INPUT: return "input";
    case DL_RECORD_SLOWDOWN: return "slowdown";
    case DL_RECORD_BENCH: return "bench";
    }
    return "unknown";
}

const char *dl_phase_name(dl_phase phase)
{
    switch (phase) {
    case DL_PHASE_NONE: return "none";
    case DL_PHASE_FORWARD: return "forward";
    case DL_PHASE_BACKWARD: return "backward";
    case DL_PHASE_UPDATE: return "update";
    case DL_PHASE_PUSH: return "push";
    case DL_PHASE_PULL: return "pull";
    }
    return "unknown";
}
