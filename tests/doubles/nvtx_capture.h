/* Replaces the capture: activities appended by the front ends stay in memory. Any thread. */
#ifndef DL_TESTS_DOUBLES_NVTX_CAPTURE_H
#define DL_TESTS_DOUBLES_NVTX_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "trace/activity/activity.h"

/* Sets the value of dl_capture_active: whether activities are recorded. */
void seen_set_active(bool active);

/* Ends the recording: calls the functions given to dl_capture_at_end. Once. */
void seen_end(void);

/* Forgets the activities and the meta values; texts keep their ids. */
void seen_clear(void);

size_t seen_count(void);
dl_activity seen_at(size_t i);
const char *seen_text(uint32_t id);

/* Returns the latest value of a meta key, or NULL. */
const char *seen_meta(const char *key);

/* Returns the first activity of this kind and name; fails the test if there is none. */
dl_activity seen_find(dl_activity_kind kind, const char *name);
size_t seen_count_kind(dl_activity_kind kind);

#endif
