#include "sim/report/report_gpu.h"

#include <math.h>

#include "sim/run.h"

#define SECONDS_PER_HOUR 3600.0

void dl_report_gpu_head(dl_csv_writer *writer, const dl_gpu_options *options)
{
    static const char *const places[] = {"cpu", "gpu:", "allreduce"};
    char gpu[16] = "", shards[16] = "workers";
    if (options->where == DL_WHERE_GPU) snprintf(gpu, sizeof gpu, "%d", options->where_gpu);
    if (options->shards > 0) snprintf(shards, sizeof shards, "%d", options->shards);
    dl_csv_comment(writer, "machine: %s", options->machine.name);
    dl_csv_comment(writer,
                   "exchange: where=%s%s shards=%s algorithm=%s fidelity=%s bucket_bytes=%lld "
                   "overlap=%s compress=%s topk_frac=%g dispatch=%s ahead=%d pageable=%s "
                   "input_cores=%d prefetch=%d input_noise=%s",
                   places[options->where], gpu, shards, options->algorithm,
                   dl_fidelity_names[options->fidelity], (long long)options->bucket_bytes,
                   options->overlap ? "yes" : "no", dl_compress_names[options->compress],
                   options->topk_frac, dl_dispatch_names[options->dispatch], options->ahead,
                   options->pageable ? "yes" : "no", options->input_cores, options->prefetch,
                   options->input_varies ? "exponential" : "none");
}

void dl_report_gpu_names(dl_csv_writer *writer)
{
    static const char *const names[] = {"link",         "link_frac", "memory_bytes",  "memory_frac",
                                        "usd_per_hour", "epoch_s",   "usd_per_epoch", "error"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        dl_csv_text(writer, names[i]);
}

void dl_report_gpu_row(dl_csv_writer *writer, const dl_scenario *scenario, const dl_row *row)
{
    const double usd_per_hour =
        dl_gpu_options_usd_per_hour(scenario->gpu, dl_point_gpus(&row->point));
    const double samples =
        scenario->samples_per_epoch > 0 ? (double)scenario->samples_per_epoch : (double)NAN;
    const double epoch_s = samples / row->mean.throughput_per_s;
    dl_csv_text(writer, row->mean.usage.link);
    dl_csv_double(writer, row->mean.usage.link_frac);
    dl_csv_double(writer, row->memory.needs_bytes);
    dl_csv_double(writer, row->memory.needs_bytes / row->memory.has_bytes);
    dl_csv_double(writer, usd_per_hour);
    dl_csv_double(writer, epoch_s);
    dl_csv_double(writer, usd_per_hour * epoch_s / SECONDS_PER_HOUR);
    dl_csv_text(writer, row->error != NULL ? row->error : "");
}
