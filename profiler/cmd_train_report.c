/* What `dlprof train` prints. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/cpu.h"
#include "common/units.h"
#include "profiler/cmd_train_run.h"
#include "profiler/interrupt.h"

static void print_device(const dl_train_config *config)
{
    if (config->device == NULL) return;
    static const char *const math[] = {"fp32", "factors rounded to tf32",
                                       "factors rounded to fp16, loss scaled"};
    char *device = dl_device_text(config);
    printf("device      %s, issued to by %s, copies through %s memory, %s\n", device,
           config->dispatch == DL_DISPATCH_SINGLE ? "one thread" : "a thread a worker",
           dl_host_memory_names[config->device_settings.pageable],
           math[config->device_settings.math]);
    free(device);
}

/* Cores and devices are rank 0's. */
static void print_ranks(const dl_train_command *run)
{
    dl_train_config own = run->config;
    own.workers /= run->rank_count;
    print_device(&own);
    if (run->rank_count == 1) return;
    printf("ranks       %d, with %d workers each, which exchange through %s\n", run->rank_count,
           own.workers, dl_train_is_collective(&own) ? "NCCL" : "TCP");
}

static void print_where(const dl_train_config *config)
{
    if (config->quantise != DL_QUANTISE_NONE) {
        printf(", gradients sent as %s", dl_quantise_names[config->quantise]);
    }
    if (config->device == NULL || config->sync == DL_SYNC_NONE) return;
    char *where = dl_device_where_text(config);
    printf(", where = %s", where);
    free(where);
}

static void print_model(const dl_train_command *run)
{
    char size[32];
    printf("model       %s, %zu parameters (%s), %s\n", run->config.model, run->sizes.parameters,
           dl_format_bytes(size, sizeof size, (double)run->sizes.parameter_bytes),
           run->config.optimizer.name);
    printf("data        %s\n", run->data_note);
}

static void print_settings(const dl_train_command *run)
{
    const dl_train_config *config = &run->config;
    char processor[128];
    print_model(run);
    printf("workers     %d%s on %d cores of %s, waiting by %s\n", config->workers,
           run->rank_count > 1 ? ", those of rank 0" : "", dl_run_cores(config),
           dl_cpu_name(processor, sizeof processor),
           dl_run_wait(config) == DL_WAIT_SPIN ? "spinning" : "blocking");
    print_ranks(run);
    printf("exchange    %s", dl_sync_names[config->sync]);
    if (config->sync == DL_SYNC_AVERAGE) {
        printf(" every %d steps%s", config->interval,
               config->average_state ? ", optimizer state too" : "");
    }
    if (config->sync == DL_SYNC_SOFTSYNC) {
        printf(" of %d gradients", config->workers / config->softsync_n);
        if (config->bound >= 0) printf(", at most %lld stale", (long long)config->bound);
    }
    if (config->staleness_rate) printf(", learning rate divided by the staleness");
    print_where(config);
    printf("\nbatch       %d (%d a worker)\n", config->batch, config->batch / config->workers);
}

static void print_staleness(const dl_train_command *run)
{
    const dl_distribution all = dl_recorder_staleness(&run->recorder, -1);
    if (all.count == 0) return;
    printf("staleness   mean %.3f, sd %.3f, p50 %.0f, p90 %.0f; mean by worker", all.mean, all.sd,
           all.p50, all.p90);
    for (int w = 0; w < run->config.workers; w++) {
        printf(" %.3f", dl_recorder_staleness(&run->recorder, w).mean);
    }
    printf("\n");
}

/* The end of the line that says how far the run got. */
static void print_end(void)
{
    if (dl_interrupt_caught()) printf(", then stopped by %s", dl_interrupt_name());
    printf("\n");
}

/* One number, or in modes where the first worker ends the run, one for each. */
static void print_steps(const dl_train_command *run)
{
    const int workers = run->config.workers;
    bool same = true;
    for (int w = 1; w < workers; w++) {
        same &=
            dl_recorder_steps_done(&run->recorder, w) == dl_recorder_steps_done(&run->recorder, 0);
    }
    printf("steps      ");
    for (int w = 0; w < (same ? 1 : workers); w++) {
        printf(" %" PRId64, dl_recorder_steps_done(&run->recorder, w));
    }
    printf(" %s worker in %.2f s", same ? "a" : "by", run->result.seconds);
    print_end();
}

static void print_loss(const dl_train_result *result)
{
    printf("loss        first %.4f, last ", result->first_loss);
    if (dl_train_diverged(result)) {
        printf("%s: the training diverged\n", isinf(result->last_loss) ? "inf" : "nan");
    } else {
        printf("%.4f\n", result->last_loss);
    }
}

static void print_accuracy(const dl_train_command *run)
{
    if (run->options->evaluate) {
        printf("accuracy    %.2f %% of the test images (%s)\n", 100 * run->accuracy,
               run->test_note);
    }
    if (run->options->accuracy.curve != NULL) {
        printf("curve       %s (%d point%s)\n", run->options->accuracy.curve, run->curve_points,
               run->curve_points == 1 ? "" : "s");
    }
}

static void print_results(const dl_train_command *run)
{
    const dl_distribution steps = dl_recorder_step_times(&run->recorder);
    char mean[32], median[32], high[32], size[32];
    print_steps(run);
    printf("step        mean %s, median %s, p90 %s\n",
           dl_format_ns(mean, sizeof mean, dl_recorder_mean_step_ns(&run->recorder)),
           dl_format_ns(median, sizeof median, steps.p50),
           dl_format_ns(high, sizeof high, steps.p90));
    printf("throughput  %.1f samples/s\n", dl_recorder_throughput_per_s(&run->recorder));
    print_loss(&run->result);
    print_accuracy(run);
    print_staleness(run);
    struct stat file;
    if (!run->options->no_trace && stat(run->output, &file) == 0) {
        printf("trace       %s (%s)%s\n", run->output,
               dl_format_bytes(size, sizeof size, (double)file.st_size),
               run->rank_count > 1 ? ", each rank its own" : "");
    }
}

void dl_train_command_report(const dl_train_command *run)
{
    print_settings(run);
    print_results(run);
}

void dl_train_command_report_replay(const dl_train_command *run)
{
    const dl_schedule *schedule = &run->schedule;
    const dl_train_result *result = &run->result;
    char processor[128];
    print_model(run);
    printf("schedule    %s: %s, %d workers, %zu gradients in %" PRId64 " updates\n", schedule->path,
           schedule->mode, schedule->workers, schedule->gradients, schedule->updates);
    printf("staleness   mean %.3f, most %" PRId64 "%s\n", schedule->staleness_mean,
           schedule->staleness_max,
           run->config.staleness_rate ? ", learning rate divided by it" : "");
    printf("batch       %d (%d a worker)\n", schedule->batch, schedule->batch / schedule->workers);
    printf("replayed    %" PRId64 " updates in %.2f s on %d cores of %s", result->updates,
           result->seconds, dl_run_cores(&run->config), dl_cpu_name(processor, sizeof processor));
    print_end();
    printf("simulated   %.3f s for all of them\n", schedule->events[schedule->count - 1].time_s);
    print_loss(result);
    print_accuracy(run);
}
