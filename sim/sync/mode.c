#include "sim/sync/mode.h"

#define TABLE(name) &dl_mode_##name,
const dl_mode *const dl_modes[DL_MODES] = {DL_MODE_LIST(TABLE)};

#define NAME(name) #name,
const char *const dl_mode_names[DL_MODES + 1] = {DL_MODE_LIST(NAME)};

#define SPEC(option, name, low, high, text, fallback, whole, help) \
    [option] = {name, low, high, fallback, whole},
const dl_sync_option_spec dl_sync_options[DL_SYNC_SWEPT] = {DL_SYNC_SWEPT_ROWS(SPEC)};

bool dl_mode_takes(const dl_mode *mode, dl_sync_option option)
{
    return (mode->options & 1u << option) != 0;
}

bool dl_mode_reduces_gradients(const dl_mode *mode)
{
    return mode->exchange == DL_EXCHANGES_GRADIENTS && mode->through & DL_THROUGH_COLLECTIVE;
}

bool dl_mode_serves_gradients(const dl_mode *mode)
{
    return mode->exchange == DL_EXCHANGES_GRADIENTS && mode->through & DL_THROUGH_SERVER;
}

bool dl_mode_sends_tensors(const dl_mode *mode)
{
    return dl_mode_serves_gradients(mode) || mode->each;
}

bool dl_mode_reads_late(const dl_mode *mode)
{
    return mode->each && mode->wait & DL_MODE_WAIT_BARRIER;
}

bool dl_mode_averages(const dl_mode *mode)
{
    return mode->exchange == DL_EXCHANGES_PARAMETERS && mode->through & DL_THROUGH_COLLECTIVE;
}

/* A syncer's thread sums vectors, as for an average, and sleeps between merges. */
unsigned dl_mode_needs(const dl_mode *mode, int agents, int threads, int cores, bool average_state)
{
    unsigned needs = DL_NEED_OPS | mode->needs;
    if (dl_mode_takes(mode, DL_SYNC_SYNCER))
        needs = (needs & ~(unsigned)DL_NEED_UPDATE) | DL_NEED_AVERAGE | DL_NEED_WAKEUP;
    if (dl_mode_takes(mode, DL_SYNC_AVERAGE_STATE) && average_state) needs |= DL_NEED_STATE;
    if (threads == 1) return needs;
    needs |= DL_NEED_SHARING;
    if (mode->needs & DL_NEED_COPY) needs |= DL_NEED_MEMORY;
    if (threads > cores) {
        needs |= DL_NEED_SLICE;
        if (mode->wait != DL_MODE_WAIT_NONE) needs |= DL_NEED_WAKEUP;
    }
    if (agents <= cores && agents > 1) {
        if (mode->wait & DL_MODE_WAIT_BARRIER) needs |= DL_NEED_BARRIER;
        if (mode->wait & DL_MODE_WAIT_LOCK) needs |= DL_NEED_LOCK;
    }
    return needs;
}
