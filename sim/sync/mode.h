/* Sync modes: one const table each, chosen by name. Adding one touches its file and the list in
 * mode.c. The modes mirror kernels/train.h, where the same ones run for real. */
#ifndef DL_SIM_SYNC_MODE_H
#define DL_SIM_SYNC_MODE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "sim/team.h"

/* What the workers of a mode wait at. */
typedef enum dl_mode_wait {
    DL_MODE_WAIT_NONE,
    DL_MODE_WAIT_BARRIER,
    DL_MODE_WAIT_LOCK
} dl_mode_wait;

/* What a gradient's staleness is in this mode. */
typedef enum dl_mode_staleness {
    DL_MODE_STALENESS_NONE, /* no shared parameters to be stale against */
    DL_MODE_STALENESS_ZERO, /* all wait for all */
    DL_MODE_STALENESS_SOME  /* a distribution: the mode calls dl_team_apply */
} dl_mode_staleness;

typedef struct dl_mode {
    const char *name;
    unsigned needs; /* dl_cost_need of its exchange */
    dl_mode_wait wait;
    dl_mode_staleness staleness;
    bool has_interval; /* uses config.interval; local updates drift in between */
    void (*advance)(dl_team *team, int worker);
} dl_mode;

extern const dl_mode dl_mode_none, dl_mode_allreduce, dl_mode_ps, dl_mode_average, dl_mode_async;

/* All modes, and their names in the same order. */
#define DL_MODES 5
extern const dl_mode *const dl_modes[DL_MODES];
extern const char *const dl_mode_names[DL_MODES];

/* All cost needs of `workers` of this mode on `cores` cores. */
unsigned dl_mode_needs(const dl_mode *mode, int workers, int cores, bool average_state);

#endif
