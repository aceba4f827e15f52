#include "sim/sync/mode.h"

#include <math.h>

const dl_mode *const dl_modes[DL_MODES] = {
    &dl_mode_none,        &dl_mode_allreduce, &dl_mode_ps,    &dl_mode_average, &dl_mode_async,
    &dl_mode_softsync,    &dl_mode_ssp,       &dl_mode_ksync, &dl_mode_kasync,  &dl_mode_kbatchsync,
    &dl_mode_kbatchasync, &dl_mode_easgd,     &dl_mode_bmuf,
};

const char *const dl_mode_names[DL_MODES] = {
    "none",  "allreduce", "ps",         "average",     "async", "softsync", "ssp",
    "ksync", "kasync",    "kbatchsync", "kbatchasync", "easgd", "bmuf"};

const dl_sync_option_spec dl_sync_options[DL_SYNC_OPTIONS] = {
    [DL_SYNC_INTERVAL] = {"interval", 1, DL_STEPS_MAX, 1, true},
    [DL_SYNC_N] = {"n", 1, 1024, 1, true},
    [DL_SYNC_BOUND] = {"bound", 0, DL_STEPS_MAX, (double)INFINITY, true},
    [DL_SYNC_K] = {"k", 1, 1000000, 1, true},
    [DL_SYNC_MOVING_RATE] = {"moving_rate", 0, 1, (double)NAN, false},
    [DL_SYNC_BLOCK_MOMENTUM] = {"block_momentum", 0, 1, (double)NAN, false},
    [DL_SYNC_ACCUMULATE] = {"accumulate", 1, 1000000, 1, true},
    [DL_SYNC_LAG] = {"lag", 0, 1, 0, true},
    [DL_SYNC_AVERAGE_STATE] = {.name = "average_state"},
    [DL_SYNC_SERVER_THREADS] = {.name = "server_threads"},
    [DL_SYNC_WHERE] = {.name = "where"},
};

unsigned dl_mode_needs(const dl_mode *mode, int workers, int cores, bool average_state)
{
    unsigned needs = DL_NEED_OPS | mode->needs;
    if (mode->options & 1u << DL_SYNC_AVERAGE_STATE && average_state) needs |= DL_NEED_STATE;
    if (workers == 1) return needs;
    needs |= DL_NEED_SHARING;
    if (mode->needs & DL_NEED_COPY) needs |= DL_NEED_MEMORY;
    if (workers > cores) {
        needs |= DL_NEED_SLICE;
        if (mode->wait != DL_MODE_WAIT_NONE) needs |= DL_NEED_WAKEUP;
    } else {
        if (mode->wait & DL_MODE_WAIT_BARRIER) needs |= DL_NEED_BARRIER;
        if (mode->wait & DL_MODE_WAIT_LOCK) needs |= DL_NEED_LOCK;
    }
    return needs;
}
