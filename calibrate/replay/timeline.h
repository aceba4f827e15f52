/* A replay as Chrome-trace JSON: a process for each rank, a track for each thread and stream. */
#ifndef DL_CALIBRATE_REPLAY_TIMELINE_H
#define DL_CALIBRATE_REPLAY_TIMELINE_H

#include "calibrate/replay/build.h"
#include "calibrate/replay/retime.h"

/* Writes all nodes that take time to `path` (overwritten), at their replayed times, with their
 * recorded starts beside them. DL_ERR_IO. */
dl_status dl_replay_timeline_write(const char *path, const dl_replay_run *run,
                                   const dl_replay_time *times, dl_error *err) DL_MUST_CHECK;

#endif
