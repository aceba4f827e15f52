/* Which call of the host launched which work of a device: the CALLs of a trace by correlation. */
#ifndef DL_TRACE_ACTIVITY_LAUNCHES_H
#define DL_TRACE_ACTIVITY_LAUNCHES_H

#include <stddef.h>
#include <stdint.h>

#include "trace/activity/activity.h"

/* Owns its table; release with dl_launches_free. Borrows the activities. */
typedef struct dl_launches {
    const dl_activity *activities;
    uint32_t *slots; /* [slot_count] hash table: index of a CALL + 1, or 0 */
    size_t slot_count;
    size_t call_count;
} dl_launches;

/* Takes all CALLs with a correlation of activities[count], count < 2^32; zero `launches` before.
 * Of several with the same one (a runtime call and the driver call within it) the one that begins
 * first counts. */
void dl_launches_init(dl_launches *launches, const dl_activity *activities, size_t count);
void dl_launches_free(dl_launches *launches);

/* The CALL of `correlation`, or NULL: none was recorded, or 0. O(1). */
const dl_activity *dl_launches_find(const dl_launches *launches, uint32_t correlation);

#endif
