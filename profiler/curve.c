#include "profiler/curve.h"

#include <math.h>

#include "common/csv.h"
#include "common/options.h"
#include "common/output.h"

static void write_curve_head(dl_csv_writer *writer, const dl_train_config *config,
                             const dl_schedule *schedule, const dl_train_result *result)
{
    static const char *const columns[] = {"update", "epoch", "simulated_s", "accuracy", "loss"};
    dl_csv_comment(writer, "accuracy during training; dlprof %s", dl_version());
    dl_csv_comment(writer, "model: %s; %s, rate %g, momentum %g%s; batch %d; seed %llu",
                   config->model, config->optimizer.name, config->optimizer.learning_rate,
                   config->optimizer.momentum,
                   config->staleness_rate ? ", divided by the staleness" : "", config->batch,
                   (unsigned long long)config->seed);
    if (schedule != NULL) {
        dl_csv_comment(writer, "schedule: %s; %s, %d workers", schedule->path, schedule->mode,
                       schedule->workers);
    } else {
        dl_csv_comment(writer, "%s, %d workers", dl_sync_names[config->sync], config->workers);
    }
    if (dl_train_diverged(result)) {
        dl_csv_comment(writer, "diverged: the last loss is not a finite number");
    }
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
        dl_csv_text(writer, columns[c]);
    dl_csv_end_row(writer);
}

static dl_status write_point(dl_csv_writer *writer, const char *model, const dl_train_point *point,
                             size_t training_set, const dl_data_set *test, dl_error *err)
{
    double accuracy = 0;
    const dl_status status = dl_train_accuracy(model, point->parameters, test, &accuracy, err);
    if (status != DL_OK) return status;
    dl_csv_int(writer, point->update);
    dl_csv_double(writer, (double)point->samples / (double)training_set);
    dl_csv_double(writer, point->simulated_s);
    dl_csv_double(writer, accuracy);
    dl_csv_double(writer, point->loss);
    dl_csv_end_row(writer);
    return DL_OK;
}

/* The end of the run as a point, without a loss: there may be no step after the last point. */
static dl_train_point end_point(const dl_schedule *schedule, const dl_train_result *result)
{
    const bool whole =
        schedule != NULL &&
        result->samples == (int64_t)schedule->gradients * schedule->batch / schedule->workers;
    return (dl_train_point){.update = result->updates,
                            .samples = result->samples,
                            .simulated_s =
                                whole ? schedule->events[schedule->count - 1].time_s : (double)NAN,
                            .loss = (double)NAN,
                            .parameters = result->parameters};
}

dl_status dl_curve_write(const char *path, const dl_train_config *config,
                         const dl_schedule *schedule, const dl_train_result *result,
                         size_t training_set, const dl_data_set *test, int *points, dl_error *err)
{
    dl_output output;
    dl_status status = dl_output_open(&output, path, err);
    if (status != DL_OK) return status;
    dl_csv_writer writer = {.out = output.out};
    write_curve_head(&writer, config, schedule, result);
    const int count = result->point_count;
    for (int i = 0; status == DL_OK && i < count; i++) {
        status = write_point(&writer, config->model, &result->points[i], training_set, test, err);
    }
    const bool ended = count > 0 && result->points[count - 1].samples == result->samples;
    if (status == DL_OK && !ended) {
        const dl_train_point end = end_point(schedule, result);
        status = write_point(&writer, config->model, &end, training_set, test, err);
    }
    *points = ended ? count : count + 1;
    return dl_output_end(&output, status, err);
}
