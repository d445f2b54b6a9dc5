/* One member of a closed process group of Corosync, as `race.py` wants it. */
#include <corosync/cpg.h>
#include <endian.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { STEP = 1000, STEPS = 20, BURST = 64, SIZE_MAX_BYTES = 65536, PATIENCE_S = 30 };

static uint64_t digest, marks[STEPS];
static uint64_t delivered;
static size_t members_now;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static double cpu_s(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void on_deliver(cpg_handle_t handle, const struct cpg_name *group, uint32_t node, uint32_t pid,
                       void *data, size_t size) {
    delivered++;
    if (delivered <= (uint64_t)STEP * STEPS) {
        uint64_t id;
        memcpy(&id, data, sizeof id);
        digest = digest * 31 + be64toh(id);
        if (delivered % STEP == 0)
            marks[delivered / STEP - 1] = digest;
    }
}

static void on_change(cpg_handle_t handle, const struct cpg_name *group,
                      const struct cpg_address *members, size_t count,
                      const struct cpg_address *left, size_t left_count,
                      const struct cpg_address *joined, size_t joined_count) {
    members_now = count;
}

static void fail(const char *what, int error) {
    fprintf(stderr, "%s: %s\n", what, cs_strerror(error));
    exit(1);
}

static void say(const char *line) {
    puts(line);
    fflush(stdout);
}

int main(int count, char **arguments) {
    if (count != 6)
        return 2;
    const char *name = *++arguments;
    uint64_t index = strtoull(arguments[1], NULL, 10), seq = 0;
    size_t members = strtoul(arguments[2], NULL, 10), size = strtoul(arguments[3], NULL, 10);
    int sends = arguments[4][0] == '1', error, fd;
    if (size < 8 || size > SIZE_MAX_BYTES)
        return 2;
    cpg_handle_t handle;
    cpg_callbacks_t callbacks = {on_deliver, on_change};
    struct cpg_name group = {.length = strlen(name)};
    if (group.length > CPG_MAX_NAME_LENGTH)
        return 2;
    memcpy(group.value, name, group.length);
    int64_t patience = now_ns() + PATIENCE_S * INT64_C(1000000000);
    while ((error = cpg_initialize(&handle, &callbacks)) != CS_OK && now_ns() < patience)
        usleep(50000); /* The daemon may still be starting. */
    if (error != CS_OK)
        fail("cpg_initialize", error);
    while ((error = cpg_join(handle, &group)) == CS_ERR_TRY_AGAIN)
        usleep(10000);
    if (error != CS_OK)
        fail("cpg_join", error);
    if ((error = cpg_fd_get(handle, &fd)) != CS_OK)
        fail("cpg_fd_get", error);
    say("joined");
    while (members_now < members)
        if ((error = cpg_dispatch(handle, CS_DISPATCH_ONE)) != CS_OK)
            fail("cpg_dispatch", error);
    say("ready");
    int64_t begin, end;
    if (scanf("%" SCNd64 " %" SCNd64, &begin, &end) != 2)
        return 2;
    static char payload[SIZE_MAX_BYTES];
    struct iovec part = {payload, size};
    struct pollfd ready = {fd, POLLIN, 0};
    uint64_t before = 0;
    double cpu = 0;
    int counting = 0;
    for (int64_t now; (now = now_ns()) < end;) {
        if (!counting && now >= begin) {
            counting = 1, before = delivered, cpu = cpu_s();
        }
        int refused = !sends;
        for (int i = 0; i < BURST && !refused; i++) {
            uint64_t id = htobe64(index << 48 | (seq + 1));
            memcpy(payload, &id, sizeof id);
            error = cpg_mcast_joined(handle, CPG_TYPE_AGREED, &part, 1);
            if (error == CS_OK)
                seq++;
            else if (error == CS_ERR_TRY_AGAIN)
                refused = 1;
            else
                fail("cpg_mcast_joined", error);
        }
        if (poll(&ready, 1, refused ? 1 : 0) > 0)
            if ((error = cpg_dispatch(handle, CS_DISPATCH_ALL)) != CS_OK)
                fail("cpg_dispatch", error);
    }
    printf("{\"delivered\":%" PRIu64 ",\"cpu_s\":%.6f,\"marks\":[", delivered - before,
           cpu_s() - cpu);
    uint64_t steps = delivered / STEP < STEPS ? delivered / STEP : STEPS;
    for (uint64_t i = 0; i < steps; i++)
        printf("%s\"%" PRIx64 "\"", i ? "," : "", marks[i]);
    say("]}");
    int c;
    while ((c = getchar()) == '\n')
        ;
    return 0;
}
