// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "options.h"

static const char HELP[] =
	"Times each request of the block devices and writes one record per completed request.\n"
	"\n"
	"  strata-iotrace --output FILE [--device DEV]... [filters] [--duration S] [--ready-fd FD]\n"
	"  strata-iotrace --check\n"
	"\n"
	"  --output FILE     records; FILE.json tells what was traced, counted and lost\n"
	"  --device DEV      only this disk: loop0, /dev/loop0 or 7:0; of a partition or volume, the whole disks\n"
	"                    below it (default: all disks)\n"
	"  --cgroup PATH     only requests of tasks in this cgroup (v2) or below it\n"
	"  --pid PID         only requests of this process and its threads\n"
	"  --comm NAME       only requests of threads of this name (at most 15 bytes)\n"
	"  --mode R|W|D|F    only reads, writes, discards, flushes\n"
	"  --min-latency US  only requests that took at least so many microseconds\n"
	"  --tracing MODE    time the drivers in this mode: block, irq, nvme, scsi, fentry, kprobe; disks without it get\n"
	"                    block (default: the best of each disk)\n"
	"  --sample N        only one of N requests, chosen at random\n"
	"  --scheduler       time in the I/O scheduler, too; costs a program more per request\n"
	"  --rotate-bytes N  begin a new file after so many bytes (1M or more), of each that is written; FILE.1,\n"
	"                    FILE.2 ... are the older ones\n"
	"  --keep-files N    delete all but the latest N older ones (default: keep all)\n"
	"  --min-free-bytes N  stop when the file system of a FILE has less left (default: 1 % of it, at most 1 GiB)\n"
	"  --vfs             count and time all reads, writes and syncs of files, cached or not, and record when those\n"
	"                    with requests returned; costs each system call\n"
	"  --no-vfs          leave system calls alone: vfs_ns stays empty, and tracing costs least; not with --spans\n"
	"  --context FILE    each second a line of CSV: run queue, TCP, page cache, pressure; costs each context switch\n"
	"  --without PART    of the context: run-queue, tcp, page-cache, memory, cpu-ticks or pressure; its columns stay\n"
	"                    empty, and it costs nothing\n"
	"  --peers FILE      each second a line of CSV for each address at the other end of TCP connections\n"
	"  --spans FILE      each second a line of CSV for each process that answers requests on sockets: what its threads\n"
	"                    did from request to response; single ones in FILE.samples; costs each context switch\n"
	"  --span-sample N   one of N spans, chosen at random, goes to FILE.samples (default 100)\n"
	"  --ring-bytes N    room for events on their way, all CPUs together (default 8M, or 512K for each CPU)\n"
	"  --backend NAME    core (needs Linux 5.15 and BTF), bcc (needs headers of this kernel and libbcc)\n"
	"                    or auto (default): core where the kernel can\n"
	"  --kernel-headers DIR  for bcc (default: $BCC_KERNEL_SOURCE, else those of /lib/modules)\n"
	"  --duration S      stop by itself after S seconds, or 500ms, 90s, 5m, 2h (default: on SIGINT, SIGTERM or SIGHUP)\n"
	"  --ready-fd FD     write the line \"ready\" there once the trace is on\n"
	"  --check           print as JSON whether this machine can be traced, and why not\n"
	"  --version         print the version; -h, --help: this\n"
	"\n"
	"Bytes may end in K, M or G (1024, 1024 * 1024 ...).\n"
	"--device, --cgroup, --pid, --comm and --mode, given more than once, take what any of them names (of other\n"
	"options the last one counts); requests that do not pass are counted.\n"
	"Read it with: python -m tracer.summary FILE, or each record: python -m tracer.decode FILE --csv OUT\n"
	"Exit: 0 ok, 2 usage, 3 cannot trace here, 4 output failed.\n";

void options_print_help(void)
{
	fputs(HELP, stdout);
}
