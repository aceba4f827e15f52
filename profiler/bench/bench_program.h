/* Step times of any program, of which k copies run concurrently: how much processes slow each other
 * down on this machine's cores.
 *
 * Steps are found in the program's output: lines that match an extended regular expression, whose
 * first group is the number of the step that ended (without a group each line ends one step). Lines
 * on standard output and standard error are timed on arrival; PYTHONUNBUFFERED is set, and other
 * programs have to flush each line.
 *
 * Each copy gets its number, from 0, in DLPROF_COPY; MASTER_PORT, if set, is raised by that number,
 * so that the ranks of each copy meet at a separate port (torch.distributed).
 *
 * Only the part of a run in which all copies are active counts. It begins when each has printed
 * `warmup` + 1 lines. The copies run until each has printed `count` more; the part ends with the
 * earliest of their last lines. Then the copies are stopped (SIGTERM, after DL_PROGRAM_PATIENCE_S
 * seconds SIGKILL), and all processes that they have started (SIGKILL), such as a data loader's
 * workers or a launcher's ranks; meanwhile this process is the parent of orphans, and must have no
 * other children. Every round runs all k in a new random order, so that a drift of the machine's
 * speed affects all k equally.
 *
 * The samples are BENCH records "step" like those of dlprof bench (trace/record.h). */
#ifndef DL_PROFILER_BENCH_PROGRAM_H
#define DL_PROFILER_BENCH_PROGRAM_H

#include <regex.h>
#include <stdatomic.h>

#include "common/status.h"
#include "profiler/bench/bench.h"

#define DL_PROGRAM_PATIENCE_S 2

typedef struct dl_program_config {
    char *const *argv;         /* program and its arguments, NULL-terminated */
    const regex_t *lines;      /* compiled extended expression of step lines */
    int batch;                 /* samples per step of one copy, >= 1 */
    int copies_max, cores;     /* each >= 1 */
    int warmup, count, rounds; /* warm-up lines; measured lines; rounds, >= 1 */
    double limit_s;            /* longest time in which no copy prints a new step */
    const atomic_bool *stop;
    uint64_t seed;
    /* Initialises `bench` (dl_bench_init) before the first samples are added, so that a program
     * without samples does not overwrite an older trace. */
    dl_status (*begin)(dl_bench *bench, void *trace, dl_error *err);
    void *trace;
} dl_program_config;

/* Adds the samples of all rounds to `bench`. DL_ERR_DATA: a copy ended (the error has its last
 * line) before all had printed enough lines, or no copy ended a step for limit_s; DL_ERR_IO: no
 * pipe or process can be made; or the error of `begin`. *runs becomes the number of runs that gave
 * samples. */
dl_status dl_bench_program(dl_bench *bench, const dl_program_config *config, int *runs,
                           dl_error *err) DL_MUST_CHECK;

#endif
