/* Any program's steps, k copies of it side by side: how much processes slow each other on the cores
 * of this machine.
 *
 * A step is known by what the program prints: lines that match an extended regular expression, the
 * first group of which is the number of the step that has ended (without a group each line is one
 * step more). Lines are timed when they arrive, on standard output and standard error;
 * PYTHONUNBUFFERED is set, and other programs have to flush each line.
 *
 * Each copy has its number, 0 and up, in DLPROF_COPY, and MASTER_PORT, if set, raised by it: there
 * the ranks of one copy meet (torch.distributed).
 *
 * Of each run only the time counts in which all copies are at it: from the `warmup`-th line of the
 * last copy to have it up to where each has printed `lines` lines more, or the first copy ends.
 * Then the copies are stopped (SIGTERM, after DL_PROGRAM_PATIENCE_S seconds SIGKILL), and all
 * processes that they have started (SIGKILL), a data loader's workers say, or the ranks of a
 * launcher: this process becomes the parent of orphans meanwhile, and must have no other children.
 * Runs of all k come in a new random order in every round, so that a drift of the machine's speed
 * touches all alike.
 *
 * The samples are BENCH records "step" as those of dlprof bench (trace/record.h). */
#ifndef DL_PROFILER_BENCH_PROGRAM_H
#define DL_PROFILER_BENCH_PROGRAM_H

#include <regex.h>
#include <stdatomic.h>

#include "common/status.h"
#include "profiler/bench/bench.h"

#define DL_PROGRAM_PATIENCE_S 2

typedef struct dl_program_config {
    char *const *argv;         /* of the program, with NULL at its end */
    const regex_t *lines;      /* compiled, extended */
    int batch;                 /* samples of a step of one copy, 1.. */
    int copies_max, cores;     /* 1.. */
    int warmup, count, rounds; /* lines before those that count; that count; 1.. */
    double limit_s;            /* longest time without a line of some copy */
    const atomic_bool *stop;
    uint64_t seed;
    /* Makes `bench` ready for samples (dl_bench_init), before the first are added: a program that
     * gives none costs nobody an older trace. */
    dl_status (*begin)(dl_bench *bench, void *trace, dl_error *err);
    void *trace;
} dl_program_config;

/* Adds the samples of all rounds to `bench`. DL_ERR_DATA: a copy ended before all had printed
 * enough lines (with the last line that it printed) or printed none with a new number in limit_s;
 * DL_ERR_IO: it cannot be started; or what `begin` returned. *runs becomes the number of runs that
 * gave samples. */
dl_status dl_bench_program(dl_bench *bench, const dl_program_config *config, int *runs,
                           dl_error *err) DL_MUST_CHECK;

#endif
