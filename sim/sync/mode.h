/* Sync modes: one constant table each, selected by name. A new mode needs a source and its name in
 * DL_MODE_LIST. The modes mirror kernels/train/train.h, which implements the same modes for real
 * training. */
#ifndef DL_SIM_SYNC_MODE_H
#define DL_SIM_SYNC_MODE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "sim/team.h"

/* Where the workers of a mode wait; bit mask. */
typedef enum dl_mode_wait {
    DL_MODE_WAIT_NONE = 0,
    DL_MODE_WAIT_BARRIER = 1, /* at a barrier or for a condition */
    DL_MODE_WAIT_LOCK = 2
} dl_mode_wait;

/* How the workers exchange; bit mask. */
typedef enum dl_mode_through { DL_THROUGH_SERVER = 1, DL_THROUGH_COLLECTIVE = 2 } dl_mode_through;

/* Staleness of gradients in a mode. */
typedef enum dl_mode_staleness {
    DL_MODE_STALENESS_NONE, /* no shared parameters to be stale against */
    DL_MODE_STALENESS_ZERO, /* every applied gradient has staleness 0, or the lag */
    DL_MODE_STALENESS_SOME  /* a distribution, which the mode records */
} dl_mode_staleness;

/* Keys that a mode may take: of [sync], unless another section is named. Those before DL_SYNC_SWEPT
 * are numbers of each point; the others are settings of the scenario. */
typedef enum dl_sync_option {
    DL_SYNC_INTERVAL,       /* local steps between two exchanges */
    DL_SYNC_N,              /* softsync: number of updates while each worker pushes one gradient */
    DL_SYNC_BOUND,          /* ssp: clocks ahead of the slowest worker; others: largest staleness */
    DL_SYNC_K,              /* gradients per update */
    DL_SYNC_MOVING_RATE,    /* easgd; does not affect time */
    DL_SYNC_BLOCK_MOMENTUM, /* bmuf; does not affect time */
    DL_SYNC_ACCUMULATE,     /* micro-batches per step */
    DL_SYNC_LAG,            /* ps, allreduce: age of the parameters in steps; average: steps from
                             * sending to merging */
    DL_SYNC_SWEPT,
    DL_SYNC_AVERAGE_STATE = DL_SYNC_SWEPT,
    DL_SYNC_SERVER_THREADS,
    DL_SYNC_WHERE,
    DL_SYNC_BY_SPEED, /* key interval_by_speed */
    DL_SYNC_SYNCER,   /* all keys of [syncer] */
    DL_SYNC_AWAY,     /* keys of absences: [failures] away, worker_mtbf_s, ... */
    DL_SYNC_OUTER,
    DL_SYNC_FRAGMENTS,
    DL_SYNC_INSIDE,
    DL_SYNC_OPTIONS
} dl_sync_option;

/* Options that every mode supports. */
#define DL_SYNC_ANY (1u << DL_SYNC_ACCUMULATE)

#define DL_STEPS_MAX 10000000

/* The swept options, one row each: option, key, minimum and maximum, default as in a file (NULL:
 * none) and as a number (INFINITY: no limit; NaN: not given), whether it is a whole number,
 * help. */
#define DL_SYNC_SWEPT_ROWS(ROW)                                                                  \
    ROW(DL_SYNC_INTERVAL, "interval", 1, DL_STEPS_MAX, "1", 1, true,                             \
        "local steps between two exchanges")                                                     \
    ROW(DL_SYNC_N, "n", 1, 10000000, "1", 1, true,                                               \
        "the server updates after workers / n gradients")                                        \
    ROW(DL_SYNC_BOUND, "bound", 0, DL_STEPS_MAX, NULL, (double)INFINITY, true,                   \
        "ssp (required): steps ahead of the slowest worker; softsync, async_average: staleness") \
    ROW(DL_SYNC_K, "k", 1, 1000000, NULL, 1, true, "gradients in an update; required")           \
    ROW(DL_SYNC_MOVING_RATE, "moving_rate", 0, 1, NULL, (double)NAN, false,                      \
        "weight of the move towards each other; does not change times")                          \
    ROW(DL_SYNC_BLOCK_MOMENTUM, "block_momentum", 0, 1, NULL, (double)NAN, false,                \
        "momentum of the block update; does not change times")                                   \
    ROW(DL_SYNC_ACCUMULATE, "accumulate", 1, 1000000, "1", 1, true,                              \
        "micro-batches of a worker's batch, exchanged after the last")                           \
    ROW(DL_SYNC_LAG, "lag", 0, DL_STEPS_MAX, "0", 0, true,                                       \
        "ps, allreduce: 1: exchange during the next step, whose parameters are one step old; "   \
        "average: local steps between sending parameters and merging their average, less than "  \
        "interval")

typedef struct dl_sync_option_spec {
    const char *name;
    double low, high, fallback;
    bool whole; /* whole numbers only */
} dl_sync_option_spec;

extern const dl_sync_option_spec dl_sync_options[DL_SYNC_SWEPT];

typedef struct dl_mode {
    const char *name;
    unsigned options;  /* supported options: 1 << dl_sync_option, or-ed */
    unsigned required; /* supported options that have no default */
    unsigned needs;    /* dl_cost_need mask of its exchange */
    dl_exchanges exchange;
    unsigned through; /* dl_mode_through mask */
    bool compresses;  /* can compress its exchange, also on cores ([exchange] compress) */
    bool sums;        /* its server can add gradients on arrival ([exchange] sum = on_arrival) */
    bool each;        /* each gradient is an update of its own: its tensors can be applied one by
                       * one */
    bool once;        /* an update has at most one gradient per worker */
    unsigned wait;    /* dl_mode_wait mask */
    dl_mode_staleness staleness;
    void (*advance)(dl_team *team, int worker);
} dl_mode;

/* All modes, in the order in which messages list them. The source of mode NAME defines
 * dl_mode_NAME. */
/* clang-format off */
#define DL_MODE_LIST(MODE) \
    MODE(none)          \
    MODE(allreduce)     \
    MODE(ps)            \
    MODE(average)       \
    MODE(async)         \
    MODE(softsync)      \
    MODE(ssp)           \
    MODE(ksync)         \
    MODE(kasync)        \
    MODE(kbatchsync)    \
    MODE(kbatchasync)   \
    MODE(easgd)         \
    MODE(bmuf)          \
    MODE(async_average)
/* clang-format on */

#define DL_MODE_DECLARE(name) extern const dl_mode dl_mode_##name;
DL_MODE_LIST(DL_MODE_DECLARE)
#define DL_MODE_COUNT(name) +1
enum { DL_MODES = DL_MODE_LIST(DL_MODE_COUNT) };

/* All modes, and their names in the same order; the names end with NULL. */
extern const dl_mode *const dl_modes[DL_MODES];
extern const char *const dl_mode_names[DL_MODES + 1];

bool dl_mode_takes(const dl_mode *mode, dl_sync_option option);

/* Whether gradients are summed in each step: dl_mode_reduces_gradients by a collective, as in
 * DistributedDataParallel; dl_mode_serves_gradients by a server. */
bool dl_mode_reduces_gradients(const dl_mode *mode);
bool dl_mode_serves_gradients(const dl_mode *mode);

/* Whether a server on GPUs can receive gradients tensor by tensor ([exchange] slice_bytes, ...). */
bool dl_mode_sends_tensors(const dl_mode *mode);

/* Whether a worker whose gradient is applied may have to wait before it reads parameters (ssp). */
bool dl_mode_reads_late(const dl_mode *mode);

/* Whether parameters are averaged among all workers, so that a collective can be used. */
bool dl_mode_averages(const dl_mode *mode);

/* All cost needs (dl_cost_need) of this mode's workers on `cores` cores. `agents`: workers and
 * their communication threads; `threads`: agents, loaders and a syncer's thread. */
unsigned dl_mode_needs(const dl_mode *mode, int agents, int threads, int cores, bool average_state);

#endif
