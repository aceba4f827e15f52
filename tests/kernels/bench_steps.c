/* Single steps of `dlprof train`, for bench_torch.py, which alternates them with steps of
 * others:
 *
 *   bench_steps MODEL BATCH WORKERS THREADS
 *
 * trains on synthetic images in the same way as `dlprof train --sync allreduce` (one worker: none).
 * Before each step the process stops itself, so that waiting threads do not spin; continued by
 * SIGCONT, it does the step and prints its wall time and the processor time of all threads, in ns.
 * It ends with the process that started it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/alloc.h"
#include "common/units.h"
#include "kernels/data_set.h"
#include "kernels/model_table.h"
#include "kernels/train/train.h"

enum { IMAGES = 256 }; /* as many as `dlprof train` has for ResNet-50 */

typedef struct span {
    int64_t wall_ns, cpu_ns;
} span;

static span now(void)
{
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (span){dl_clock_ns(), (int64_t)cpu.tv_sec * DL_NS_PER_S + cpu.tv_nsec};
}

static void on_step(void *user, int64_t step DL_UNUSED, bool begins)
{
    span *start = user;
    if (begins) {
        (void)raise(SIGSTOP); /* to this thread: the process stops before raise returns */
        *start = now();
        return;
    }
    const span end = now();
    printf("%lld %lld\n", (long long)(end.wall_ns - start->wall_ns),
           (long long)(end.cpu_ns - start->cpu_ns));
    fflush(stdout);
}

static void ignore(void *user DL_UNUSED, const dl_record *record DL_UNUSED) {}

static dl_status train(const char *model, int batch, int workers, int threads, dl_error *err)
{
    const dl_model_table *table = NULL;
    dl_status status = dl_model_table_find(&table, model, err);
    if (status != DL_OK) return status;
    DL_SCOPED(dl_data_set) data;
    dl_data_set_synthetic(&data, table->in, dl_model_table_classes(table), IMAGES, 1);
    span start;
    dl_train_config config = dl_train_default_config();
    config.model = model;
    config.batch = batch;
    config.workers = workers;
    config.threads = threads;
    config.sync = workers > 1 ? DL_SYNC_ALLREDUCE : DL_SYNC_NONE;
    config.steps = UINT32_MAX;
    dl_train_result result;
    const dl_train_observer observer = {
        .steps_only = true, .user = &start, .record = ignore, .step = on_step};
    status = dl_train_run(&config, &data, &observer, &result, err);
    if (status == DL_OK) dl_train_result_free(&result);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: bench_steps MODEL BATCH WORKERS THREADS\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    dl_error err = {0};
    const dl_status status = train(argv[1], atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), &err);
    if (status != DL_OK) fprintf(stderr, "bench_steps: %s\n", err.text);
    return status == DL_OK ? 0 : 1;
}
