/* A program with ranges of every kind, for test_nvtx.sh. With the argument "fork", a child has
 * ranges too, which must be in no trace. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nvtx3/nvToolsExtPayload.h>

static nvtxRangeId_t started;

static void *end_elsewhere(void *unused)
{
    (void)unused;
    nvtxNameOsThreadA((uint32_t)gettid(), "ender");
    nvtxRangeEnd(started);
    nvtxRangePushA("open in a thread that ends");
    return NULL;
}

static void run_domain(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("own domain");
    nvtxEventAttributes_t event = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_REGISTERED};
    event.message.registered = nvtxDomainRegisterStringA(domain, "registered");
    nvtxDomainRangePushEx(domain, &event);
    nvtxRangePopPayload(domain, NULL, 0);
    nvtxDomainRangePushEx(domain, &event);
    nvtxDomainRangePop(domain);
    nvtxDomainDestroy(domain);
}

int main(int argc, char **argv)
{
    nvtxRangePop(); /* a pop without a push, as the very first call */
    nvtxRangePushA("whole run");
    nvtxRangePushW(L"wide \x20ac");
    nvtxRangePop();
    nvtxMarkA("a mark");
    started = nvtxRangeStartA("started here");
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_elsewhere, NULL) != 0) return 1;
    pthread_join(thread, NULL);
    run_domain();
    if (argc > 1 && strcmp(argv[1], "fork") == 0) {
        if (fork() == 0) {
            nvtxRangePushA("of the child");
            nvtxRangePop();
            nvtxRangeStartA("open in the child");
            exit(0);
        }
        wait(NULL);
    }
    nvtxRangePushA("open inner");
    return 0;
}
