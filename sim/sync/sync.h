/* Sync modes: one const table each, chosen by name. Adding one touches its file and the list in
 * sync.c. The modes mirror kernels/train.h, where the same ones run for real. */
#ifndef DL_SIM_SYNC_SYNC_H
#define DL_SIM_SYNC_SYNC_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "sim/team.h"

/* What the workers of a mode wait at. */
typedef enum dl_sync_wait {
    DL_SYNC_WAIT_NONE,
    DL_SYNC_WAIT_BARRIER,
    DL_SYNC_WAIT_LOCK
} dl_sync_wait;

/* What a gradient's staleness is in this mode. */
typedef enum dl_sync_staleness {
    DL_SYNC_STALENESS_NONE, /* no shared parameters to be stale against */
    DL_SYNC_STALENESS_ZERO, /* all wait for all */
    DL_SYNC_STALENESS_SOME  /* a distribution: the mode calls dl_team_apply */
} dl_sync_staleness;

typedef struct dl_sync_mode {
    const char *name;
    unsigned needs; /* dl_cost_need of its exchange */
    dl_sync_wait wait;
    dl_sync_staleness staleness;
    bool has_interval; /* uses config.interval; local updates drift in between */
    void (*advance)(dl_team *team, int worker);
} dl_sync_mode;

extern const dl_sync_mode dl_sync_none, dl_sync_allreduce, dl_sync_ps, dl_sync_average,
    dl_sync_async;

/* All modes, and their names in the same order. */
#define DL_SYNC_MODES 5
extern const dl_sync_mode *const dl_sync_modes[DL_SYNC_MODES];
extern const char *const dl_sync_mode_names[DL_SYNC_MODES];

/* All cost needs of `workers` of this mode on `cores` cores. */
unsigned dl_sync_needs(const dl_sync_mode *mode, int workers, int cores, bool average_state);

#endif
