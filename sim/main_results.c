/* dlsim's results: files and tables, as the options ask. */
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/output.h"
#include "sim/main.h"
#include "sim/report/page.h"
#include "sim/report/report.h"
#include "sim/report/timeline.h"
#include "sim/schedule.h"

/* Index of the row chosen by --point, by default the last one. */
static size_t chosen_row(const dl_inputs *in, const dl_settings *set)
{
    return set->point > 0 ? (size_t)set->point - 1 : in->study.point_count - 1;
}

const dl_variant *dl_inputs_chosen(const dl_inputs *in, const dl_settings *set)
{
    size_t point = 0;
    return dl_study_variant(&in->study, chosen_row(in, set), &point);
}

/* Whether the command asks for a timeline or schedule and its row was simulated. A row that does
 * not fit into memory is not simulated. */
static bool shows_run(const dl_inputs *in, const dl_settings *set, const dl_sweep *sweep)
{
    return (set->timeline != NULL || set->schedule != NULL) &&
           sweep->rows[chosen_row(in, set)].error == NULL;
}

dl_status dl_inputs_check_run(const dl_inputs *in, const dl_sweep *sweep, const dl_settings *set,
                              dl_error *err)
{
    const char *const option = set->timeline != NULL   ? "--timeline"
                               : set->schedule != NULL ? "--schedule"
                                                       : NULL;
    if (option == NULL || shows_run(in, set, sweep)) return DL_OK;
    const size_t row = chosen_row(in, set);
    return dl_error_set(err, DL_ERR_UNFIT,
                        "%s: not written: row %zu %s; --point selects another row", option, row + 1,
                        sweep->rows[row].error);
}

/* Writes the timeline and the schedule that the command asks for. */
static dl_status write_run(const dl_inputs *in, const dl_settings *set, dl_error *err)
{
    size_t index = 0;
    const dl_variant *variant = dl_study_variant(&in->study, chosen_row(in, set), &index);
    const dl_scenario *scenario = &variant->scenario;
    const dl_point *point = &scenario->points[index];
    dl_status status = DL_OK;
    if (set->timeline != NULL)
        status = dl_timeline_write(set->timeline, scenario, &variant->costs, point, err);
    if (status == DL_OK && set->schedule != NULL)
        status = dl_schedule_write(set->schedule, scenario, &variant->costs, point, err);
    return status;
}

/* Notes that --batch is the total of all workers: users who mean the batch per worker would get the
 * answer to another question. */
static void print_shared_batch(const dl_study *study)
{
    const dl_scenario *scenario = &study->variants[0].scenario;
    const dl_point *most = &scenario->points[0];
    for (size_t p = 1; p < scenario->point_count; p++)
        if (scenario->points[p].workers >= most->workers) most = &scenario->points[p];
    if (strcmp(study->path, DL_SCENARIO_FROM_COMMAND) != 0 || scenario->batch_per_worker ||
        scenario->generators != NULL || most->workers < 2) {
        return;
    }
    DL_AUTOFREE char *note =
        dl_format("--batch %lld is shared by all %d workers, %.4g each; --batch-per-worker %lld "
                  "gives each that many",
                  (long long)most->batch, most->workers, (double)most->batch / most->workers,
                  (long long)most->batch);
    dl_report_note_print(stdout, note);
}

static dl_status write_explained(const dl_inputs *in, const dl_settings *set,
                                 const dl_explanation *explanation, dl_error *err)
{
    const dl_study *study = &in->study;
    const dl_sweep *sweep = explanation->sweep;
    const dl_explanation *shown = set->explain ? explanation : NULL;
    dl_status status = DL_OK;
    if (set->output != NULL) {
        status = dl_report_results(set->output, study, sweep, in->measured, shown, err);
    }
    if (status == DL_OK && set->json != NULL && !dl_settings_json_to_stdout(set)) {
        status = dl_report_json(set->json, study, sweep, in->measured, shown, err);
    }
    if (status == DL_OK && set->histogram != NULL) {
        status = dl_report_histogram(set->histogram, study, sweep, err);
    }
    if (status == DL_OK && set->html != NULL) {
        status =
            dl_page_write(set->html, set->output, explanation, set->explain, in->measured, err);
    }
    if (status == DL_OK && shows_run(in, set, sweep)) status = write_run(in, set, err);
    status = dl_outputs_end(status, err);
    if (status == DL_OK && dl_settings_json_to_stdout(set)) {
        dl_report_json_write(stdout, study, sweep, in->measured, shown);
        return DL_OK;
    }
    if (status != DL_OK || set->quiet) return status;
    dl_report_table(stdout, study, sweep, in->measured, set->notes);
    print_shared_batch(study);
    if (set->explain) dl_explanation_print(stdout, explanation);
    printf("%zu point%s in %s%s%s%s\n", sweep->row_count, sweep->row_count == 1 ? "" : "s",
           set->output != NULL ? set->output : set->json, dl_settings_replaced(set),
           set->html != NULL ? ", page in " : "", set->html != NULL ? set->html : "");
    return DL_OK;
}

dl_status dl_inputs_write(const dl_inputs *in, const dl_sweep *sweep, const dl_settings *set,
                          dl_error *err)
{
    DL_SCOPED(dl_explanation) explanation = {.study = &in->study, .sweep = sweep};
    if (set->explain || set->html != NULL) {
        const size_t row =
            set->explain && set->point > 0 ? (size_t)set->point - 1 : sweep->row_count;
        dl_explanation_find(&explanation, &in->study, sweep, in->measured, row);
    }
    return write_explained(in, set, &explanation, err);
}
