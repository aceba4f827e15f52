#include "calibrate/calibration.h"

#include "common/alloc.h"
#include "common/names.h"
#include "common/options.h"

static dl_status fit_bench(dl_calibration *all, dl_error *err)
{
    if (all->dataset.bench_count == 0) {
        dl_notes_add(&all->notes, "no bench trace: no costs of exchange and sharing");
        return DL_OK;
    }
    dl_status status = dl_comm_costs_fit(&all->dataset, &all->comm, &all->costs, &all->notes, err);
    if (status != DL_OK) return status;
    dl_exchange_runs_fit(&all->dataset, &all->comm, &all->costs);
    dl_memory_fit_total(&all->comm, &all->memory, &all->costs, &all->notes);
    return dl_contention_fit_factors(&all->dataset, &all->sharing, &all->costs, &all->notes, err);
}

static dl_status fit_all(dl_calibration *all, dl_error *err)
{
    dl_status status = DL_OK;
    if (all->dataset.run_count > 0) {
        status = dl_operations_fit(&all->dataset, &all->operations, &all->costs, &all->notes, err);
        if (status != DL_OK) return status;
    } else {
        dl_notes_add(&all->notes, "no train trace: no operations and no noise");
    }
    status = fit_bench(all, err);
    if (status == DL_OK) dl_dispatch_costs_fit(&all->dataset, &all->costs, &all->notes);
    if (status == DL_OK && all->dataset.run_count > 0) {
        dl_step_noise_fit_factors(&all->dataset, &all->costs, &all->noise, &all->notes);
    }
    dl_work_fit(&all->dataset, &all->costs, &all->notes);
    if (status == DL_OK) {
        status = dl_launch_gaps_fit(&all->dataset, &all->costs, &all->notes, err);
    }
    return status;
}

dl_status dl_calibration_fit(dl_calibration *calibration, const char *const *paths, size_t count,
                             dl_error *err)
{
    DL_ASSERT(count >= 1, "no traces");
    dl_dataset *dataset = &calibration->dataset;
    for (size_t i = 0; i < count; i++) {
        const dl_status status = dl_dataset_add(dataset, paths[i], &calibration->notes, err);
        if (status != DL_OK) return status;
    }
    if (dataset->path == NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, paths[0], 0,
                               "no given trace is from dlprof train or dlprof bench; dlcal costs "
                               "reads traces of other programs");
    }
    dl_dataset_leave_out_disturbed(dataset, &calibration->notes);
    dl_recording_cost_subtract(dataset, &calibration->notes);
    dl_costs *costs = &calibration->costs;
    costs->workload = dl_strdup(dataset->workload);
    costs->device = dl_strdup(dataset->device);
    if (dataset->precision != NULL) costs->precision = dl_strdup(dataset->precision);
    costs->parameter_bytes = dataset->parameter_bytes;
    costs->state_bytes = dataset->state_bytes;
    costs->cores = dataset->cores;
    costs->gpu_memory.activation_bytes_per_sample = dataset->gpu.activation_bytes_per_sample;
    costs->gpu_memory.workspace_bytes = dataset->gpu.workspace_bytes;
    costs->input_bytes_per_sample = dataset->gpu.input_bytes_per_sample;
    costs->input_copy_ns = dl_gpu_facts_copy_ns(&dataset->gpu);
    costs->waits = dataset->gpu.gpu; /* dlprof train waits for the GPU at the end of each step */
    return fit_all(calibration, err);
}

dl_status dl_calibration_write(const dl_calibration *calibration, const char *path, dl_error *err)
{
    char date[DL_DATE_BYTES];
    DL_SCOPED(dl_notes) from = {0};
    dl_notes_add(&from, "dlcal %s, %s, from", dl_version(), dl_date_text(date));
    const dl_dataset *dataset = &calibration->dataset;
    for (size_t r = 0; r < dataset->run_count; r++)
        dl_notes_add(&from, "  %s", dl_base_name(dataset->runs[r].path));
    for (size_t b = 0; b < dataset->bench_count; b++)
        dl_notes_add(&from, "  %s", dl_base_name(dataset->benches[b].path));
    return dl_cost_file_write(&calibration->costs, path, &from, &calibration->notes, err);
}

void dl_calibration_free(dl_calibration *calibration)
{
    dl_dataset_free(&calibration->dataset);
    dl_costs_free(&calibration->costs);
    dl_operations_free(&calibration->operations);
    dl_step_noise_free(&calibration->noise);
    dl_comm_fit_free(&calibration->comm);
    dl_memory_fit_free(&calibration->memory);
    dl_contention_fit_free(&calibration->sharing);
    dl_notes_free(&calibration->notes);
    *calibration = (dl_calibration){0};
}
