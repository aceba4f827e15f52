/* The reader of Kineto traces, on whole texts and in small parts, and the functions that process
 * its traces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/status.h"
#include "tests/fuzz/fuzz_driver.h"
#include "trace/activity/summary.h"
#include "trace/readers/readers_internal.h"

/* Small texts of each generation of the schema, with most of the fields that the reader uses. */
static const char old_array[] =
    "[{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"ProfilerStep#3\",\"pid\":9,\"tid\":\"44\","
    "\"ts\":1606910596297023,\"dur\":13,\"args\":{\"External id\":2}},"
    "{\"ph\":\"X\",\"cat\":\"Runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":9,\"tid\":\"9\","
    "\"ts\":"
    "1606910596297025,\"dur\":3,\"args\":{\"correlation\":7,\"external id\":2}},"
    "{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"k\\u00e9\\\"\",\"pid\":0,\"tid\":\"stream "
    "7\",\"ts\":"
    "1606910596297030,\"dur\":2,\"args\":{\"device\":0,\"stream\":7,\"correlation\":7,\"grid\":[1,"
    "2,3],"
    "\"block\":[4,5,6]}}]";

static const char ranges[] =
    "{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,\"name\":\"GPU\"}],\"distributedInfo\":"
    "{\"backend\":\"nccl\",\"rank\":3,\"world_size\":8},\"traceEvents\":["
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"nccl:all_to_all\",\"pid\":9,\"tid\":9,"
    "\"ts\":10,"
    "\"dur\":9,\"args\":{\"Input Dims\":[[8,10],[]],\"Input type\":[\"float\",\"\"]}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":9,\"tid\":9,"
    "\"ts\":12,"
    "\"dur\":3,\"args\":{\"External id\":7,\"correlation\":7}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclKernel_SendRecv_RING\",\"pid\":3,\"tid\":7,"
    "\"ts\":"
    "20,\"dur\":2,\"args\":{\"device\":3,\"stream\":7,\"correlation\":7}},"
    "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy DtoH (Device -> "
    "Pinned)\",\"pid\":3,\"tid\":"
    "7,\"ts\":30,\"dur\":2,\"args\":{\"device\":3,\"stream\":7,\"correlation\":8,\"bytes\":77}},"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":9,\"tid\":9,\"ts\":1,\"args\":{\"name\":"
    "\"main\"}}]}";

static const char parameters[] =
    "{\"distributedInfo\":{\"rank\":1,\"world_size\":2},\"traceEvents\":[{\"ph\":\"X\",\"cat\":"
    "\"cpu_op\","
    "\"name\":\"record_param_comms\",\"pid\":9,\"tid\":9,\"ts\":445867.655,\"dur\":4.5,\"args\":{"
    "\"Collective name\":\"allreduce\",\"dtype\":\"Float\",\"In msg nelems\":10,\"Out msg "
    "nelems\":10,"
    "\"Group size\":2,\"Process Group Name\":\"0\",\"Process Group Ranks\":\"[0, 1]\",\"Rank\":1}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"hipMemcpyAsync\",\"pid\":9,\"tid\":9,\"ts\":"
    "445868.1,"
    "\"dur\":1,\"args\":{\"correlation\":5,\"size\":\"64\"}},"
    "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy "
    "PtoP\",\"pid\":1,\"tid\":0,\"ts\":445869.5,"
    "\"dur\":1e0,\"args\":{\"correlation\":5}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Wait "
    "Event\",\"pid\":0,\"tid\":24,\"ts\":445870,"
    "\"dur\":1,\"args\":{\"wait_on_stream\":20,\"wait_on_cuda_event_record_corr_id\":5,"
    "\"wait_on_cuda_event_id\":6,\"stream\":24,\"correlation\":34,\"device\":0}},"
    "{\"ph\":\"X\",\"cat\":\"overhead\",\"name\":\"C:\\Users\\x01\",\"pid\":-1,\"tid\":0,\"ts\":1,"
    "\"dur\":2}"
    "],\"traceName\":\"t\",\"baseTimeNanoseconds\":1711964646000000000}";

static const char groups[] =
    "{\"distributedInfo\":{\"rank\":9,\"world_size\":64,\"pg_config\":[{\"pg_name\":\"3\","
    "\"pg_desc\":\"mesh_pp\",\"pg_size\":4,\"ranks\":[1,9,17,25]},{\"pg_name\":\"0\","
    "\"group_size\":64,\"ranks\":[]}]},\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\","
    "\"name\":\"record_param_comms\",\"pid\":9,\"tid\":9,\"ts\":10,\"dur\":4,\"args\":{"
    "\"Collective name\":\"send\",\"dtype\":\"BFloat16\",\"In msg nelems\":10,"
    "\"Out msg nelems\":10,\"Group size\":4,\"Process Group Name\":\"3\","
    "\"Process Group Description\":\"mesh_pp\",\"Process Group Ranks\":\"[1, 9, ..., 25]\","
    "\"Rank\":2,\"Dst Rank\":17}},{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":"
    "\"cudaLaunchKernel\",\"pid\":9,\"tid\":9,\"ts\":12,\"dur\":1,\"args\":{\"correlation\":7}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_SendRecv\",\"pid\":0,\"tid\":7,"
    "\"ts\":20,\"dur\":2,\"args\":{\"device\":0,\"stream\":7,\"correlation\":7}},"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"record_param_comms\",\"pid\":9,\"tid\":9,"
    "\"ts\":30,\"dur\":4,\"args\":{\"Collective name\":\"allreduce\",\"dtype\":\"Float\","
    "\"In msg nelems\":10,\"Out msg nelems\":10,\"Group size\":64,\"Process Group Name\":\"0\","
    "\"Process Group Ranks\":\"[0, 1, ..., 63]\",\"Rank\":9}}]}";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed made[] = {{old_array, sizeof old_array - 1},
                                        {ranges, sizeof ranges - 1},
                                        {parameters, sizeof parameters - 1},
                                        {groups, sizeof groups - 1}};
    *seeds = made;
    return sizeof made / sizeof made[0];
}

typedef struct text_parts {
    const uint8_t *data;
    size_t bytes, at, part;
} text_parts;

static size_t read_part(void *context, char *into, size_t room)
{
    text_parts *parts = context;
    size_t bytes = parts->bytes - parts->at;
    if (bytes > parts->part) bytes = parts->part;
    if (bytes > room) bytes = room;
    if (bytes > 0) memcpy(into, parts->data + parts->at, bytes);
    parts->at += bytes;
    return bytes;
}

static dl_status read_in(dl_read_trace *item, const uint8_t *data, size_t bytes, size_t part)
{
    text_parts parts = {.data = data, .bytes = bytes, .part = part};
    dl_error err = {0};
    return dl_kineto_read_text(item, "fuzz_rank1.json", read_part, &parts, &err);
}

static void free_item(dl_read_trace *item)
{
    dl_notes_free(&item->notes);
    dl_trace_free(&item->trace);
}

static void use(const dl_trace *trace)
{
    static FILE *sink;
    if (sink == NULL) sink = fopen("/dev/null", "w");
    DL_ASSERT(sink != NULL, "no /dev/null");
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        DL_ASSERT(dl_activity_valid(a), "activity %zu is invalid", i);
        DL_ASSERT(a->name < trace->string_count && a->detail < trace->string_count,
                  "activity %zu has name %u of %zu", i, a->name, trace->string_count);
    }
    DL_SCOPED(dl_activity_summary) summary = {0};
    dl_activity_summary_init(&summary, trace, NULL);
    dl_activity_summary_print(&summary, 10, sink);
    dl_activity_summary_write_json(&summary, sink);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    dl_read_trace whole = {0}, parts = {0};
    dl_status status = read_in(&whole, data, bytes, bytes);
    dl_status again = read_in(&parts, data, bytes, 7);
    DL_ASSERT(status == again, "status %d, in parts %d", (int)status, (int)again);
    DL_ASSERT(whole.trace.activity_count == parts.trace.activity_count,
              "%zu activities, in parts %zu", whole.trace.activity_count,
              parts.trace.activity_count);
    DL_ASSERT(status != DL_OK || whole.trace.complete == parts.trace.complete, "complete %d",
              (int)whole.trace.complete);
    if (status == DL_OK) use(&whole.trace);
    free_item(&whole);
    free_item(&parts);
    return 0;
}
