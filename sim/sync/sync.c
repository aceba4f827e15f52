#include "sim/sync/sync.h"

const dl_sync_mode *const dl_sync_modes[DL_SYNC_MODES] = {
    &dl_sync_none, &dl_sync_allreduce, &dl_sync_ps, &dl_sync_average, &dl_sync_async,
};

const char *const dl_sync_mode_names[DL_SYNC_MODES] = {"none", "allreduce", "ps", "average",
                                                       "async"};

unsigned dl_sync_needs(const dl_sync_mode *mode, int workers, int cores, bool average_state)
{
    unsigned needs = DL_NEED_OPS | mode->needs;
    if (mode->has_interval && average_state) needs |= DL_NEED_STATE;
    if (workers == 1) return needs;
    needs |= DL_NEED_SHARING;
    if (mode->needs & DL_NEED_COPY) needs |= DL_NEED_MEMORY;
    if (workers > cores) {
        needs |= DL_NEED_SLICE;
        if (mode->wait != DL_SYNC_WAIT_NONE) needs |= DL_NEED_WAKEUP;
    } else if (mode->wait == DL_SYNC_WAIT_BARRIER) {
        needs |= DL_NEED_BARRIER;
    } else if (mode->wait == DL_SYNC_WAIT_LOCK) {
        needs |= DL_NEED_LOCK;
    }
    return needs;
}
