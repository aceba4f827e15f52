#include "profiler/cmd_train_accuracy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv.h"
#include "common/output.h"

dl_accuracy_options dl_accuracy_options_default(void)
{
    const dl_train_config config = dl_train_default_config();
    return (dl_accuracy_options){.n = config.softsync_n,
                                 .bound = config.bound,
                                 .staleness_rate = config.staleness_rate,
                                 .rate_drop = config.drop_epochs};
}

static const dl_option own_options[DL_ACCURACY_OPTION_COUNT] = {
    {.name = "n",
     .type = DL_OPTION_INT,
     .target = DL_OPTION_FIELD(dl_accuracy_options, n),
     .low = 1,
     .high = DL_TRAIN_WORKERS_MAX,
     .argument = "COUNT",
     .help = "an update needs workers / n gradients (softsync)"},
    {.name = "bound",
     .type = DL_OPTION_INT,
     .target = DL_OPTION_FIELD(dl_accuracy_options, bound),
     .low = -1,
     .high = INT32_MAX,
     .argument = "UPDATES",
     .help = "largest staleness of a gradient (softsync); -1 means any"},
    {.name = "staleness-rate",
     .type = DL_OPTION_FLAG,
     .target = DL_OPTION_FIELD(dl_accuracy_options, staleness_rate),
     .help = "divide the learning rate of a gradient by its staleness (async, softsync)"},
    {.name = "rate-drop",
     .type = DL_OPTION_DOUBLE,
     .target = DL_OPTION_FIELD(dl_accuracy_options, rate_drop),
     .low = 0,
     .high = 1e9,
     .argument = "EPOCHS",
     .help = "epochs behind which the learning rate is a tenth; 0 means it stays"},
    {.name = "evaluate-every",
     .type = DL_OPTION_TEXT,
     .target = DL_OPTION_FIELD(dl_accuracy_options, evaluate_every),
     .argument = "STEPS",
     .help =
         "steps, or with the word epochs behind the number epochs, between two points of "
         "the curve; with --schedule as many gradients as there are workers are a step, however "
         "many updates they make"},
    {.name = "curve",
     .type = DL_OPTION_TEXT,
     .target = DL_OPTION_FIELD(dl_accuracy_options, curve),
     .argument = "FILE",
     .help = "accuracy on the test images at the end, and with --evaluate-every during the run "
             "(CSV)"},
    {.name = "schedule",
     .type = DL_OPTION_TEXT,
     .target = DL_OPTION_FIELD(dl_accuracy_options, schedule),
     .argument = "FILE",
     .help = "repeat the order of updates that dlsim --schedule wrote, a thread a core; "
             "workers, batch and mode are those of the file"},
};

void dl_accuracy_options_table(dl_accuracy_options *options, dl_option *table)
{
    dl_options_bind(table, own_options, DL_ACCURACY_OPTION_COUNT, options);
}

dl_status dl_accuracy_options_apply(const dl_accuracy_options *options, size_t samples,
                                    dl_train_config *config, dl_error *err)
{
    config->softsync_n = (int)options->n;
    config->bound = options->bound;
    config->staleness_rate = options->staleness_rate;
    config->drop_epochs = options->rate_drop;
    if (options->evaluate_every == NULL) return DL_OK;
    char *rest = NULL;
    const double number = strtod(options->evaluate_every, &rest);
    const bool epochs = strcmp(rest, "epochs") == 0 || strcmp(rest, "epoch") == 0;
    if (rest == options->evaluate_every || (*rest != '\0' && !epochs) || !(number > 0) ||
        !isfinite(number) || (!epochs && number < 1)) {
        return dl_error_set(err, DL_ERR_USAGE,
                            "--evaluate-every %s is neither a number of steps nor one of epochs, "
                            "as 100 or 0.5epochs",
                            options->evaluate_every);
    }
    if (options->curve == NULL) {
        return dl_error_set(err, DL_ERR_USAGE, "--evaluate-every needs --curve FILE");
    }
    config->evaluate_every = epochs ? number * (double)samples / config->batch : number;
    return DL_OK;
}

static void write_head(dl_csv_writer *writer, const dl_train_config *config,
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
        dl_csv_comment(writer, "diverged: the last loss is no finite number");
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

/* The end as a point, without a loss: there may have been no step since the last one. */
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
    write_head(&writer, config, schedule, result);
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
