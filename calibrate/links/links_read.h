/* Reads what says something about links:
 *
 *   nccl-tests     all programs, old and new heads, several tables in a file     links_nccl.c
 *   bandwidthTest  of the CUDA samples, both forms of output                     links_cuda.c
 *   nvbandwidth    matrices and lines, text output                               links_rates.c
 *   gpu_copy_bw    of SuperBench, "NAME GB/s" lines                              links_rates.c
 *   dlprof bench   .dlt                                                          links_bench.c
 *
 * Which one it is is told from the content. Lines of other programs in between (NCCL INFO, MPI) are
 * skipped. */
#ifndef DL_CALIBRATE_LINKS_READ_H
#define DL_CALIBRATE_LINKS_READ_H

#include "calibrate/links/links_data.h"
#include "common/status.h"

/* Adds what `path` holds to *data (call dl_link_data_finish after the last file). DL_ERR_IO;
 * DL_ERR_PARSE with the line of a table that is malformed; DL_ERR_DATA if there is no table. On
 * failure what was read before the error is in *data. */
dl_status dl_link_data_read(dl_link_data *data, const char *path, dl_error *err) DL_MUST_CHECK;

/* The same from memory, logs only; `name` stands for the path. `text` may hold any bytes. */
dl_status dl_link_data_read_text(dl_link_data *data, const char *name, const char *text,
                                 size_t bytes, dl_error *err) DL_MUST_CHECK;

#endif
