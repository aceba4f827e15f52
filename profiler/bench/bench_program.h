/* Any program's steps, k copies of it side by side: how much processes slow each other on the cores
 * of this machine.
 *
 * The program's output marks its steps: lines that match an extended regular expression, whose
 * first group is the number of the step that has ended (without a group each line is one step
 * more). Lines are timed when they arrive, on standard output and standard error; PYTHONUNBUFFERED
 * is set, and other programs have to flush each line.
 *
 * Each copy gets its number, from 0 up, in DLPROF_COPY, and MASTER_PORT, if set, raised by it:
 * there the ranks of one copy meet (torch.distributed).
 *
 * Only the part of each run counts in which all copies are active: from the `warmup`-th line of the
 * last copy to reach it until each has printed `lines` more lines, or the first copy ends. Then the
 * copies are stopped (SIGTERM, after DL_PROGRAM_PATIENCE_S seconds SIGKILL), and all processes that
 * they have started (SIGKILL), such as a data loader's workers or a launcher's ranks: this process
 * becomes the parent of orphans meanwhile, and must have no other children. Every round runs all k
 * in a new random order, so that a drift of the machine's speed affects all alike.
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
    int warmup, count, rounds; /* lines before those that count; number that count; 1.. */
    double limit_s;            /* longest time without a line of some copy */
    const atomic_bool *stop;
    uint64_t seed;
    /* Makes `bench` ready for samples (dl_bench_init), before the first are added: a program
     * without samples thus leaves an older trace alone. */
    dl_status (*begin)(dl_bench *bench, void *trace, dl_error *err);
    void *trace;
} dl_program_config;

/* Adds the samples of all rounds to `bench`. DL_ERR_DATA: a copy ended before all had printed
 * enough lines (with its last line), or printed none with a new number in limit_s; DL_ERR_IO: it
 * cannot be started; or the error of `begin`. *runs becomes the number of runs that gave
 * samples. */
dl_status dl_bench_program(dl_bench *bench, const dl_program_config *config, int *runs,
                           dl_error *err) DL_MUST_CHECK;

#endif
