#include "profiler/inject/capture_meta.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/units.h"
#include "profiler/inject/capture.h"
#include "trace/activity/capture_cost.h"

/* The variables of each launcher, the most specific first: a program that torchrun starts in a
 * Slurm job has Slurm's numbers too, of the launcher and not of itself. */
static const struct launcher {
    const char *rank, *world_size, *local_rank;
} launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"}, /* torchrun, DeepSpeed, Accelerate */
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}, /* MPICH, Intel MPI */
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

static void write_number(dl_trace_writer *writer, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    dl_trace_writer_meta(writer, key, text);
}

static bool read_variable(const char *name, int64_t *value)
{
    const char *text = getenv(name);
    return text != NULL && dl_parse_int(text, 0, INT32_MAX, value, NULL) == DL_OK;
}

static void write_rank(dl_trace_writer *writer)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        int64_t value;
        if (!read_variable(launchers[i].rank, &value)) continue;
        write_number(writer, "rank", value);
        if (read_variable(launchers[i].world_size, &value)) {
            write_number(writer, "world_size", value);
        }
        if (read_variable(launchers[i].local_rank, &value)) {
            write_number(writer, "local_rank", value);
        }
        return;
    }
}

/* The words of the command line with blanks between them. */
static void write_command(dl_trace_writer *writer)
{
    char *text = NULL;
    size_t bytes = 0;
    if (dl_file_read("/proc/self/cmdline", &text, &bytes, NULL) != DL_OK) return;
    if (bytes > DL_CAPTURE_TEXT_MAX) text[bytes = DL_CAPTURE_TEXT_MAX] = '\0';
    while (bytes > 0 && text[bytes - 1] == '\0')
        bytes--;
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\0') text[i] = ' ';
    dl_trace_writer_meta(writer, "command", text);
    free(text);
}

void dl_capture_meta_process(dl_trace_writer *writer, const dl_capture_settings *settings)
{
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    dl_trace_writer_meta(writer, "program", "dlprof");
    dl_trace_writer_meta(writer, "version", DL_VERSION);
    dl_trace_writer_meta(writer, "kind", "run");
    dl_trace_writer_meta(writer, "clock", "realtime");
    dl_trace_writer_meta(writer, "host", host);
    write_number(writer, "pid", getpid());
    write_command(writer);
    dl_trace_writer_meta(writer, "preset", dl_capture_preset_names[settings->preset]);
    dl_trace_writer_meta(writer, "graphs", dl_capture_graphs_names[settings->graphs]);
    dl_trace_writer_meta(writer, DL_CAPTURE_COST_KEY,
                         settings->cost[0] != '\0' ? settings->cost : DL_CAPTURE_COST_UNKNOWN);
    write_rank(writer);
}
