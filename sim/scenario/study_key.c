/* The hash of a study's inputs: dl_study_key. */
#include <stdlib.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/bytes.h"
#include "common/file.h"
#include "sim/scenario/machine_catalogue.h"
#include "sim/scenario/study.h"

/* Adds the contents of a machine file, or the text of a machine of the catalogue, to the hash. */
static dl_status add_machine(uint64_t *hash, const dl_machine *machine, dl_error *err)
{
    DL_AUTOFREE char *text = NULL;
    if (access(machine->path, F_OK) == 0) return dl_file_hash(hash, machine->path, err);
    const dl_status status = dl_machine_make_text(machine->path, &text, err);
    if (status == DL_OK) *hash = dl_hash_add_text(*hash, text);
    return status;
}

dl_status dl_scenario_add_files(uint64_t *hash, const dl_scenario *scenario, dl_error *err)
{
    const char *const paths[] = {
        scenario->costs_path,
        scenario->scale_path,
        scenario->trace_path,
        scenario->measured_path,
        scenario->generators != NULL ? scenario->generators->lengths_path : NULL,
    };
    dl_status status =
        scenario->gpu != NULL ? add_machine(hash, &scenario->gpu->machine, err) : DL_OK;
    for (size_t f = 0; f < DL_LENGTH(paths) && status == DL_OK; f++)
        status = dl_file_hash(hash, paths[f], err);
    for (size_t f = 0; f < scenario->gpu_costs_count && status == DL_OK; f++)
        status = dl_file_hash(hash, scenario->gpu_costs[f].path, err);
    return status;
}

dl_status dl_study_key(const dl_study *study, const char *options, uint64_t *key, dl_error *err)
{
    uint64_t hash = DL_HASH_START;
    dl_status status = DL_OK;
    hash = dl_hash_add_text(hash, study->text);
    hash = dl_hash_add_text(hash, options);
    for (size_t v = 0; v < study->variant_count && status == DL_OK; v++) {
        const dl_scenario *scenario = &study->variants[v].scenario;
        hash = dl_hash_bytes(hash, &scenario->seed, sizeof scenario->seed);
        status = dl_scenario_add_files(&hash, scenario, err);
    }
    if (status == DL_OK) *key = hash;
    return status;
}
