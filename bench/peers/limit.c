/* What the machine can do: C, one system call for many datagrams, nothing else.
 *
 *     limit GROUP PORT SIZE DATAGRAM SECONDS     sends for so long, as fast as it can
 *     limit GROUP PORT                           receives
 *
 * It reports as workers do, reads the start signal from standard input, and ends with it.  Messages
 * share datagrams; each is copied into its datagram and out of it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { VECTOR = 64, DATAGRAM_MAX = 65536, SOCKET_BYTES = 4 << 20, TICK_MS = 100 };

struct head {
    uint32_t length;
    uint32_t seq;
};

static unsigned char buffers[VECTOR][DATAGRAM_MAX];
static struct mmsghdr messages[VECTOR];
static struct iovec parts[VECTOR];
static unsigned char payload[DATAGRAM_MAX];
static unsigned long sent, taken, seen;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *what) {
    printf("{\"error\":\"limit: %s: %s\"}\n", what, strerror(errno));
    exit(2);
}

static void tick(int is_sending) {
    printf("{\"tick\":{\"sent\":%lu,\"taken\":%lu,\"is_sending\":%s}}\n", sent, taken,
           is_sending ? "true" : "false");
}

static int open_socket(const char *group, int port, int receives) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), yes = 1, bytes = SOCKET_BYTES;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct ip_mreq where = {.imr_interface.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0) fail("socket");
    inet_pton(AF_INET, group, &at.sin_addr);
    where.imr_multiaddr = at.sin_addr;
    if (receives) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
        if (bind(fd, (struct sockaddr *)&at, sizeof at)) fail("bind");
        if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &where, sizeof where)) fail("join");
    } else {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
        setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &where.imr_interface, sizeof(struct in_addr));
        if (connect(fd, (struct sockaddr *)&at, sizeof at)) fail("connect");
    }
    for (int i = 0; i < VECTOR; i++) {
        parts[i] = (struct iovec){buffers[i], DATAGRAM_MAX};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    return fd;
}

static void send_some(int fd, size_t size, size_t per_datagram) {
    size_t step = sizeof(struct head) + size;
    for (int i = 0; i < VECTOR; i++) {
        for (size_t j = 0; j < per_datagram; j++) {
            struct head head = {size, ++sent};
            memcpy(buffers[i] + j * step, &head, sizeof head);
            memcpy(buffers[i] + j * step + sizeof head, payload, size);
        }
        parts[i].iov_len = per_datagram * step;
    }
    for (int done = 0; done < VECTOR;) {
        int count = sendmmsg(fd, messages + done, VECTOR - done, 0);
        if (count < 0 && errno != EAGAIN && errno != ENOBUFS) fail("send");
        if (count > 0) done += count;
    }
}

static void take(const unsigned char *data, size_t length) {
    struct head head;
    for (size_t place = 0; place + sizeof head <= length; place += sizeof head + head.length) {
        memcpy(&head, data + place, sizeof head);
        if (place + sizeof head + head.length > length) return;
        memcpy(payload, data + place + sizeof head, head.length);
        seen += head.seq ^ payload[0];
        taken++;
    }
}

static int receive_some(int fd) {
    int count = recvmmsg(fd, messages, VECTOR, MSG_DONTWAIT, NULL);
    for (int i = 0; i < count; i++) take(buffers[i], messages[i].msg_len);
    return count;
}

/* Until told to stop; returns when the last message came. */
static double receive(int fd, double start) {
    struct pollfd watched[2] = {{fd, POLLIN, 0}, {0, POLLIN, 0}};
    double last = start, told = 0;
    while (!watched[1].revents) {
        double now = now_s();
        if (receive_some(fd) > 0) last = now;
        else poll(watched, 2, TICK_MS);
        if (now - told > TICK_MS / 1e3) {
            tick(0);
            poll(watched + 1, 1, 0);
            told = now;
        }
    }
    return last - start;
}

static double send_all(int fd, size_t size, size_t per_datagram, double start, double seconds) {
    double told = 0, now;
    while ((now = now_s()) < start + seconds) {
        if (now - told > TICK_MS / 1e3) tick(1), told = now;
        send_some(fd, size, per_datagram);
    }
    return now - start;
}

int main(int argc, char **argv) {
    int sends = argc == 6;
    char line[256];
    double start, seconds = 0, took = 0, cpu;
    if (argc != 3 && !sends) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int fd = open_socket(argv[1], atoi(argv[2]), !sends);
    printf("{\"is_ready\":true}\n");
    if (!fgets(line, sizeof line, stdin) || sscanf(line, "{\"at\":%lf", &start) != 1) return 2;
    while (now_s() < start) usleep(1000);
    cpu = cpu_s();
    if (sends) {
        size_t size = strtoul(argv[3], NULL, 10), datagram = strtoul(argv[4], NULL, 10);
        size_t fit = datagram / (sizeof(struct head) + size);
        seconds = send_all(fd, size, fit ? fit : 1, start, atof(argv[5]));
        tick(0);
    } else {
        took = receive(fd, start);
    }
    if (!fgets(line, sizeof line, stdin)) return 0;
    printf("{\"result\":{\"sent\":%lu,\"taken\":%lu,\"skipped\":0,\"seconds\":%f,\"took_s\":%f,"
           "\"cpu_s\":%f,\"state\":\"%lx\"}}\n",
           sent, taken, seconds, took, cpu_s() - cpu, seen);
    return 0;
}
